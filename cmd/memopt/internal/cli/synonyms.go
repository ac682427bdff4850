package cli

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Synonyms are former spellings of flags, and that of Hugging Face's Trainer where it differs, with the ones that
// stand in help texts and messages. A verb takes such a spelling wherever it has the flag, on the command line and
// as a variable MEMOPT_<FLAG>.
var Synonyms = map[string]string{
	"accumulate": "gradient-accumulation-steps",
	"beta1":      "adam-beta1",
	"beta2":      "adam-beta2",
	"clip-norm":  "max-grad-norm",
	"eps":        "adam-epsilon",
	"lr":         "learning-rate",
	"no-grad":    "freeze",
	"save-steps": "save-every",
}

// TakeSynonyms has a verb take the former spellings of its flags.
func TakeSynonyms(verb *cobra.Command) {
	f := verb.Flags()
	to := map[string]string{}
	for old, now := range Synonyms {
		if f.Lookup(now) != nil && f.Lookup(old) == nil { // grad --accumulate is a flag of its own
			to[old] = now
		}
	}
	if len(to) == 0 {
		return
	}
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if now, ok := to[name]; ok {
			name = now
		}
		return pflag.NormalizedName(name)
	})
}

// spellings are the names of a flag, the present one first.
func spellings(f *pflag.Flag) []string {
	list := []string{f.Name}
	for _, old := range slices.Sorted(maps.Keys(Synonyms)) {
		if Synonyms[old] == f.Name {
			list = append(list, old)
		}
	}
	return list
}
