package main

// inputKind says what of a command line's input is a mutant.
type inputKind uint8

const (
	modelInput    inputKind = iota // an ONNX model
	planInput                      // what plan --save-plan writes
	configInput                    // a configuration of ONNX Runtime's
	traceInput                     // what run --profile writes
	deviceInput                    // a profile of a device
	aliasInput                     // a list of aliases
	instanceInput                  // what solve reads
	tableInput                     // what pack reads
	tensorInput                    // an encoded TensorProto
	arraysInput                    // numpy's archive
)

// fuzzLine is what is run on a mutant: lines one after the other, as long as they end with 0. IN
// stands for the mutant, DATA for the folder with the files that are no mutants, OUT for the folder
// that is written to, and DIMS for --dim with a small number for every symbol of the mutant's
// inputs.
type fuzzLine struct {
	input inputKind
	lines []string
	// timed says that the lines search for as long as they may, so that a second run may end with
	// another result.
	timed bool
	// reads is the name of the mutant in its folder where that counts.
	name string
	// stdin says that the mutant is read from standard input, as -.
	stdin bool
}

// bounded are flags of all that executes: a mutant that is right and large is no fault.
const bounded = " DIMS --init random:1 --threads 1 --mem-limit 128MiB --warmup 0"

// fuzzLines are the command lines. Corpora name them by number: new ones go to the end.
var fuzzLines = []fuzzLine{
	{lines: []string{"inspect IN --by node -O json"}},
	{lines: []string{"inspect IN --text"}},
	{lines: []string{"inspect IN DIMS --by category -O csv"}},
	{lines: []string{"plan IN -O json"}},
	{lines: []string{"plan IN DIMS --level 1 -O json --save-plan OUT/plan.json --save-config OUT/config.json",
		"apply IN DIMS --plan OUT/plan.json -o OUT/model.onnx -O json"}},
	{lines: []string{"plan IN DIMS --level 2 --details -v"}},
	{lines: []string{"plan IN DIMS --budget 60% --time-limit 0.2 -O json --save-plan OUT/plan.json"}, timed: true},
	{lines: []string{"plan IN DIMS --order memory --level 1 -O markdown"}, timed: true},
	{lines: []string{"plan IN DIMS --budget 70% --budget-in ort --time-limit 0.2 -O json"}, timed: true},
	{lines: []string{"plan IN DIMS --budget 50% --select clusters --time-limit 0.2 -O csv"}, timed: true},
	{lines: []string{"plan IN DIMS --pareto 3 --time-limit 0.2 -O json"}, timed: true},
	{lines: []string{"plan IN --level 1 -F deeploy --save-plan OUT/schedule.json -q"}},
	{lines: []string{"apply IN --level 1 -o OUT/model.onnx -O json", "inspect OUT/model.onnx -O json",
		"plan OUT/model.onnx --level 0 -O json"}},
	{lines: []string{"apply IN DIMS --level 1 --anchor off --external-data 64 -o OUT/model.onnx",
		"verify IN OUT/model.onnx -O json" + bounded}},
	{lines: []string{"apply IN DIMS --budget 60% --time-limit 0.2 -o OUT/model.onnx -O json",
		"verify IN OUT/model.onnx -O json" + bounded}, timed: true},
	{lines: []string{"grad IN -o OUT/model.onnx -O json", "inspect OUT/model.onnx -O json",
		"run OUT/model.onnx -O json" + bounded}},
	{lines: []string{"grad IN -o OUT/model.onnx --optimizer sgd --momentum 0.9 --nesterov --lr 0.1 -O csv",
		"run OUT/model.onnx -O json" + bounded}},
	{lines: []string{"grad IN -o OUT/model.onnx --optimizer adam --clip-norm 1 --external-data 16",
		"verify OUT/model.onnx --level 1 -O json" + bounded}},
	{lines: []string{"grad IN -o OUT/model.onnx --optimizer adamw --lr 0.01 --weight-decay 0.1 --loss-scale scale " +
		"--keep-grads -O markdown", "plan OUT/model.onnx DIMS --level 1 -O json"}},
	{lines: []string{"grad IN -o OUT/model.onnx --input-grads -O json",
		"verify OUT/model.onnx --level 1 -O json" + bounded}},
	{lines: []string{"run IN -O json --save-outputs OUT/y" + bounded}},
	{lines: []string{"run IN DIMS -e null --level 1 --phases -O json --mem-limit 128MiB"}},
	{lines: []string{"run IN --level 0 --mem-pattern off --phases --profile OUT/trace.json -O json" + bounded,
		"plan IN DIMS --level 1 --cost OUT/trace.json -O json"}},
	{lines: []string{"run IN --save-outputs OUT/y.npz --strict -O csv" + bounded,
		"run IN --mem-pattern off --data-dir OUT/y.npz -O json" + bounded}},
	{lines: []string{"verify IN --level 1 -O json" + bounded}},
	{lines: []string{"verify IN --level 0 --mem-pattern off -O json" + bounded}},
	{lines: []string{"verify IN --budget 60% --time-limit 0.2 -O json" + bounded}, timed: true},
	{lines: []string{"verify IN DIMS -e null --level 2 -O json --mem-limit 128MiB"}},
	{lines: []string{"verify IN IN -O json" + bounded}},
	{lines: []string{"plan IN DIMS --budget-for *=1KiB --time-limit 0.2 -O json"}, timed: true},
	{lines: []string{"plan - DIMS --probe 1:1 -O json"}, stdin: true},
	{lines: []string{"apply - --level 2 -o - --strict"}, stdin: true},
	{lines: []string{"run IN --level 1 --arena-extend-strategy kSameAsRequested --mem-pattern off -r 2 -O markdown" +
		bounded}},
	{lines: []string{"run IN -e null DIMS -O json"}},

	{input: planInput, lines: []string{"plan DATA/model.onnx --dim batch=4 --plan IN -O json"}},
	{input: planInput, lines: []string{"verify DATA/model.onnx --plan IN --dim batch=4 -O json --init random:1 " +
		"--threads 1"}},
	{input: planInput, lines: []string{"apply DATA/model.onnx --dim batch=4 --plan IN -o OUT/model.onnx -O json",
		"plan OUT/model.onnx --dim batch=4 -O json"}},
	{input: configInput, lines: []string{"plan DATA/model.onnx --dim batch=4 --config IN -O json"}},
	{input: configInput,
		lines: []string{"verify DATA/model.onnx --config IN --dim batch=4 -O json --init random:1 --threads 1"}},
	{input: traceInput, lines: []string{"plan DATA/model.onnx --dim batch=4 --level 1 --cost IN -O json"}},
	{input: traceInput,
		lines: []string{"plan DATA/model.onnx --dim batch=4 --budget 80% --time-limit 0.1 --cost IN -O json"},
		timed: true},
	{input: deviceInput, lines: []string{"plan DATA/model.onnx --dim batch=4 --level 1 --device IN -O json"},
		name: "device.json"},
	{input: aliasInput,
		lines: []string{"plan DATA/model.onnx --dim batch=4 --level 1 --aliases IN --clone-bytes 16 -O json"}},
	{input: instanceInput, lines: []string{"solve IN -o OUT/s.json --time-limit 0.1 -O json"}, timed: true},
	{input: instanceInput, lines: []string{"solve IN -o OUT/s.json --budget 70% --solver exact --time-limit 0.2"},
		timed: true},
	{input: instanceInput,
		lines: []string{"solve IN -o OUT/s.json --budget 90% --solver chain --time-limit 0 -O markdown"}, timed: true},
	{input: instanceInput, lines: []string{"solve - -o - --solver greedy --time-limit 0"}, timed: true, stdin: true},
	{input: tableInput, lines: []string{"pack IN -o OUT/b.csv --time-limit 0.1 -O json"}, timed: true},
	{input: tableInput, lines: []string{"pack IN -o OUT/b.csv --capacity 24 --time-limit 0.1"}, timed: true},
	{input: tableInput, lines: []string{"pack - -o - --time-limit 0.1"}, timed: true, stdin: true},
	{input: tensorInput,
		lines: []string{"run DATA/model.onnx --data-dir FOLDER --dim batch=4 --init random:1 --threads 1 -O json"},
		name:  "input_0.pb"},
	{input: tensorInput,
		lines: []string{
			"verify DATA/model.onnx --level 1 --data-dir FOLDER --init random:1 --threads 1 -O json --dim batch=4",
		}, name: "input_1.pb"},
	{input: tensorInput,
		lines: []string{"run DATA/model.onnx --data-dir FOLDER --dim batch=4 --init random:1 --threads 1"},
		name:  "output_0.pb"},
	{input: arraysInput, lines: []string{"run DATA/model.onnx --data-dir IN --init random:1 --threads 1 -O json"},
		name: "arrays.npz"},
	{input: arraysInput,
		lines: []string{"verify DATA/model.onnx --level 1 --data-dir IN --init random:1 --threads 1 -O json"},
		name:  "arrays.npz"},
	{lines: []string{"run IN --level 0 --save-outputs OUT/y.npz" + bounded,
		"run IN --level 1 --mem-pattern off --data-dir OUT/y.npz -O json" + bounded}},
	{lines: []string{"run IN --level 2 --save-outputs OUT/y.npz" + bounded,
		"run IN --level 0 --data-dir OUT/y.npz --atol 0 --rtol 0 -O json DIMS --init random:1 --threads 4 " +
			"--mem-limit 128MiB"}},
	{lines: []string{"grad IN --input-grads --keep-grads --optimizer adamw -o OUT/model.onnx",
		"verify OUT/model.onnx --level 2 --mem-pattern off -O json" + bounded}},
	{lines: []string{"plan IN DIMS --optimizer adamw --clip-norm 1 --level 1 -O json"}},
	{lines: []string{"run IN --optimizer sgd --momentum 0.9 -r 3 --save-outputs OUT/y.npz -O json" + bounded,
		"run IN --optimizer sgd --momentum 0.9 -r 3 --mem-pattern off -O json" + bounded}},
	{lines: []string{"verify IN --level 1 -r 2 -O json" + bounded,
		"run IN -r 2 --independent-steps -O json" + bounded}},
	{lines: []string{"run IN --state x=y --state w=w_updated -r 2 -O json" + bounded}},
	{lines: []string{"grad IN --accumulate --optimizer adamw --clip-norm 1 -o OUT/model.onnx --apply-out OUT/a.onnx",
		"verify OUT/model.onnx --level 1 -O json" + bounded, "run OUT/a.onnx -r 2 -O json" + bounded}},
	{lines: []string{"grad IN --input-grads --fuse=false -o OUT/model.onnx -O json",
		"verify OUT/model.onnx -O json" + bounded}},
	{lines: []string{"verify IN --accumulate --outputs l* -r 2 --level 1 -O json" + bounded}},
	{lines: []string{"diff IN IN DIMS --level 1 -O markdown", "diff IN example:mlp -O json -v"}},
	{input: planInput, lines: []string{"diff IN DATA/plan.json -O markdown"}},
	{input: planInput, lines: []string{"diff DATA/plan.json IN --model DATA/model.onnx -O json --fail-if peak>=0"}},
	{input: planInput, lines: []string{"plan DATA/model.onnx --dim batch=4 --plan IN --budget 50% -O json"}},
	{lines: []string{"explain IN DIMS --top 3 -O json", "explain IN DIMS --level 1 * --top 2"}},
	{lines: []string{"plan IN DIMS --level 1 --keep * -O json", "plan IN DIMS --level 2 --recompute * -O json"}},
	{lines: []string{"optimize IN DIMS --threads 1 --opset 20 -o OUT/model.onnx -O json",
		"inspect OUT/model.onnx -O json", "run OUT/model.onnx -O json" + bounded}},
	{lines: []string{"optimize IN DIMS --threads 1 --exact --inference --freeze-inputs --growth 1KiB --atol 0 " +
		"--rtol 0 -o OUT/model.onnx -O markdown", "inspect OUT/model.onnx -O json"}},
	{lines: []string{"quantize IN DIMS --threads 1 --per-channel --inference -o OUT/model.onnx -O json",
		"inspect OUT/model.onnx -O json"}},
	{lines: []string{"quantize IN DIMS --threads 1 --weight-type int8 --reduce-range --freeze-inputs --opset 13 " +
		"--external-data 16 -o OUT/model.onnx -O csv", "run OUT/model.onnx -O json" + bounded}},
	{lines: []string{"trace IN DIMS --level 1 -o OUT/trace.json", "trace IN DIMS -F torch-snapshot -o OUT/s.pickle",
		"trace IN DIMS --level 2 -F model-explorer -o OUT/overlays",
		"trace IN DIMS --level 1 --baseline -o OUT/b.json"}},
	{lines: []string{"report IN DIMS --level 1 --top 2 --pareto 2 -o OUT/page.html", "report IN DIMS --pareto 0 -o -"}},
	{input: traceInput, lines: []string{
		"report DATA/model.onnx --dim batch=4 --level 1 --pareto 0 --run IN -o OUT/page.html"}},
}

// runtimeLines are lines in ONNX Runtime, which is another program: they are for hunts that ask for
// them.
var runtimeLines = []fuzzLine{
	{lines: []string{"run IN -e ort -O json DIMS --init random:1 --threads 1"}, timed: true},
	{lines: []string{"run IN --save-outputs OUT/y.npz --strict" + bounded,
		"run IN -e ort --data-dir OUT/y.npz -O json DIMS --init random:1 --threads 1"}, timed: true},
	{lines: []string{"verify IN -e ort --level 1 -O json DIMS --init random:1 --threads 1"}, timed: true},
}
