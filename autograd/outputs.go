package autograd

import (
	"fmt"
	"slices"
	"strings"

	"memopt/graph"
)

// keepOutputs keeps the outputs of the forward model that a glob matches, and all of them where there are no
// globs. Nodes that only the other outputs need are dropped when the graph is arranged.
func (j *joint) keepOutputs(globs []string, losses []lossValue) error {
	if len(globs) == 0 {
		return nil
	}
	var names []string
	used := make([]bool, len(globs))
	kept := make([]bool, len(j.g.Outputs))
	for i, d := range j.g.Outputs {
		name := j.g.ValueName(d.Value)
		names = append(names, name)
		for k, glob := range globs {
			if graph.MatchGlob(glob, name) || glob == TheLosses && isLoss(losses, d.Value) {
				kept[i] = true
			}
			used[k] = used[k] || graph.MatchGlob(glob, name) || glob == TheLosses
		}
	}
	if k := slices.Index(used, false); k >= 0 {
		return fmt.Errorf("outputs %q matches no output of the model; they are %s", globs[k],
			strings.Join(names, ", "))
	}
	var outputs []graph.Decl
	for i, d := range j.g.Outputs {
		if kept[i] {
			outputs = append(outputs, d)
		} else {
			j.g.Values[d.Value].Output = false
		}
	}
	j.g.Outputs, j.fewer = outputs, true
	return nil
}

// isLoss reports whether a value is one of the losses.
func isLoss(losses []lossValue, v Value) bool {
	return slices.ContainsFunc(losses, func(l lossValue) bool { return l.value == v })
}

// dropUnread leaves out the forward nodes that have no readers left once outputs were left out.
func (j *joint) dropUnread(forward, backward []*graph.Node, losses []lossValue) []*graph.Node {
	if !j.fewer {
		return forward
	}
	read := make([]bool, len(j.g.Nodes))
	for _, n := range j.live(slices.Concat(forward, backward), losses) {
		read[n.ID] = true
	}
	return slices.DeleteFunc(forward, func(n *graph.Node) bool { return !read[n.ID] })
}
