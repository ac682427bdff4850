package data

import (
	"fmt"
	"slices"
	"strings"

	"memopt/hint"
)

// role is the meaning of an input for data of tokens.
type role int

const (
	noRole        role = iota
	roleTokens         // the tokens of a block
	roleLabels         // the tokens to predict
	rolePositions      // 0, 1, 2 …
	roleOnes           // the mask of blocks without padding
	roleZeros          // the one segment
)

var roleNames = [...]string{roleTokens: "tokens", roleLabels: "labels", rolePositions: "positions",
	roleOnes: "ones", roleZeros: "zeros"}

// Roles lists the roles of inputs for data of tokens, for Options.Names.
func Roles() []string { return slices.Clone(roleNames[roleTokens:]) }

// usualNames has, by role, the names that exporters and libraries give such inputs, in lower case.
var usualNames = [...][]string{
	roleTokens: {"input_ids", "tokens", "token_ids", "idx", "ids", "input", "inputs", "input.1",
		"input_0", "x", "src", "decoder_input_ids"},
	roleLabels:    {"labels", "label", "targets", "target", "y", "tgt", "lm_labels", "next_tokens"},
	rolePositions: {"position_ids", "positions", "position", "pos", "cache_position"},
	roleOnes:      {"attention_mask", "mask", "input_mask"},
	roleZeros:     {"token_type_ids", "segment_ids"},
}

// usualParts has parts of names that show the role of an input if no input has the usual name.
var usualParts = [...][]string{
	roleTokens: {"token", "input", "_ids"}, roleLabels: {"label", "target"},
	rolePositions: {"position"}, roleOnes: {"mask"},
}

// rolesOf returns the role of each input: from names, otherwise by the input's name.
func rolesOf(inputs []Input, names map[string]string) ([]role, error) {
	roles := make([]role, len(inputs))
	for i, in := range inputs {
		given, ok := names[in.Name]
		if !ok {
			roles[i] = usualRole(in.Name)
			continue
		}
		at := slices.Index(roleNames[:], given)
		if at < int(roleTokens) {
			return nil, fmt.Errorf("input %q: cannot be %q; it can hold %s",
				in.Name, given, strings.Join(Roles(), ", "))
		}
		roles[i] = role(at)
	}
	for i, in := range inputs {
		if roles[i] == noRole {
			return nil, fmt.Errorf("input %q (%v): its name does not tell its contents; say which of %s "+
				"it does (%v)", in.Name, in.DType, strings.Join(Roles(), ", "), hint.Names.With("NAME=…"))
		}
	}
	if !slices.Contains(roles, roleTokens) {
		return nil, fmt.Errorf("no input takes tokens, of %s: say which one does (%v)", listInputs(inputs),
			hint.Names.With("NAME=tokens"))
	}
	return roles, nil
}

// usualRole goes by the whole name, then by parts of it.
func usualRole(name string) role {
	name = strings.ToLower(name)
	for r, list := range usualNames {
		if slices.Contains(list, name) {
			return role(r)
		}
	}
	for _, r := range []role{roleLabels, rolePositions, roleOnes, roleTokens} {
		for _, part := range usualParts[r] {
			if strings.Contains(name, part) {
				return r
			}
		}
	}
	return noRole
}

func listInputs(inputs []Input) string {
	names := make([]string, len(inputs))
	for i, in := range inputs {
		names[i] = fmt.Sprintf("%q (%v)", in.Name, in.DType)
	}
	return strings.Join(names, ", ")
}
