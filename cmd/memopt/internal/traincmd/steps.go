package traincmd

import (
	"fmt"
	"slices"
	"strings"

	"memopt"
	"memopt/autograd"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/executor"
	"memopt/graph/examples"
	"memopt/graph/roles"
	"memopt/train"
)

// smallExample takes the example that stands for a large one where it is trained.
func (t *training) smallExample() {
	name, _ := strings.CutPrefix(t.name, memopt.ExamplePrefix)
	ex, ok := examples.Lookup(name)
	if !ok || ex.Train == "" || !strings.HasPrefix(t.name, memopt.ExamplePrefix) {
		return
	}
	small := memopt.ExamplePrefix + ex.Train
	t.Note("%s stands for %s, which trains in seconds; to train the large one, write it with memopt apply %s -o FILE",
		t.name, small, t.name)
	t.name = small
}

// makeSteps makes the steps of the job.
func (t *training) makeSteps() (err error) {
	traits := t.engine.Traits()
	if t.recipe, err = t.trainFlags.step.Recipe(t.model, t.Global.Seed, false); err != nil {
		return err
	}
	t.recipe.Seeds, t.recipe.Home = false, t.hostDir != "" && !t.evalOnly
	if t.recipe.Differentiate.Data, err = t.dataNames(); err != nil {
		return err
	}
	if !t.trainFlags.step.Updates() {
		return cli.Usage("train --optimizer none: a job updates parameters; memopt estimate --optimizer none shows " +
			"the memory of gradients alone")
	}
	for _, l := range t.recipe.Differentiate.Losses {
		if l.Seed {
			return cli.Usage("--loss %s=seed: a job needs a loss that is a scalar of the graph", l.Name)
		}
	}
	scale, err := t.scale(t.model)
	if err != nil {
		return err
	}
	if err := t.setRanks(); err != nil {
		return err
	}
	if t.config.Scale, t.recipe.LossScale = scale, ""; scale != nil {
		t.recipe.LossScale = gradcmd.LossScaleInput
	}
	// memopt's own loop on the CPU ends a step before it writes; elsewhere the graph itself must.
	_, accelerator := traits.Device.(executor.Accelerator)
	guarded := traits.Device == nil || accelerator
	t.recipe.Optimizer.Guard = scale == nil && guarded
	if err := t.make(); err != nil {
		return err
	}
	if t.config.Scale != nil && t.steps.Joint.LossScale == "" {
		if t.set.Changed("loss-scale") {
			t.Warn("--loss-scale %s: %s has gradients of its own, without a scale: the job goes without a scale",
				t.lossScale, t.name)
		}
		t.config.Scale, t.recipe.LossScale = nil, ""
		if t.recipe.Optimizer.Guard = guarded; guarded {
			if err := t.make(); err != nil {
				return err
			}
		}
	}
	if err := t.evalArtefact(); err != nil {
		return err
	}
	t.view.Step = t.trainFlags.step.Describe(t.model, t.steps)
	if t.steps.Forward != nil {
		gradcmd.NoteGrad(t.App, t.steps.Joint)
		if err := t.refuseMerged(t.steps.Joint); err != nil {
			return err
		}
	}
	if doubt := t.steps.Weights.Doubt; doubt != "" && (t.recipe.Micros > 1 || t.ranks() > 1 || len(t.data.eval) > 0) {
		t.Warn("%s: %s: batches count by their samples, which is a mean over all only where each sample counts alike",
			t.name, doubt)
	}
	if t.steps.Loss == "" {
		return cli.Invalid(fmt.Errorf("%s: no value of the graph is known to be its loss, "+
			"without which no job can be watched", t.name))
	}
	return nil
}

// make makes the steps by the recipe.
func (t *training) make() (err error) {
	t.steps, err = train.Make(t.model, t.recipe)
	if err != nil {
		return gradcmd.ClassifyGrad(t.name, err)
	}
	return nil
}

// refuseMerged returns an error where one parameter of a job stands for several of the program, or two for one:
// the job would train another model.
func (t *training) refuseMerged(j *autograd.Joint) error {
	if t.allowMerged || t.dryRun || t.evalOnly || t.resume != "" {
		return nil
	}
	trains := func(c roles.Change) bool {
		return c.Kind.TrainsAnother() && slices.Contains(j.Wrt, c.Value)
	}
	i := slices.IndexFunc(j.Exported, trains)
	if i < 0 {
		return nil
	}
	c := j.Exported[i]
	if c.Kind == roles.Apart {
		return cli.Invalid(fmt.Errorf("%s: the job would train %q apart from the values that the exporter computed "+
			"of it (%s); "+
			"%s; --allow-merged trains them", t.name, c.Value, gradcmd.SomeOf(c.Names), gradcmd.KeepsParameters))
	}
	if c.Kind == roles.Untied {
		return cli.Invalid(fmt.Errorf("%s: the job would train %q and its transpose %q apart, which the program ties; "+
			"%s tied; --allow-merged trains them", t.name, c.Value, c.Names[0], gradcmd.KeepsTies))
	}
	return cli.Invalid(fmt.Errorf("%s: %q stands for %s of the program (%s): the job would train them as one; "+
		"%s; --allow-merged trains them as one", t.name, c.Value, gradcmd.Count(len(c.Names), "more parameter",
		"more parameters"), gradcmd.SomeOf(c.Names), gradcmd.KeepsParameters))
}
