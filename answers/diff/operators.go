package diff

import (
	"encoding/json"
	"fmt"
	"strconv"

	"memopt/python/pytorch"
	"memopt/recompute"
)

// operatorsSchema stands for the schema of plans of operators.
const operatorsSchema = "memopt-operators/v1"

// Derived fields, which a plan of operators does not have.
const (
	costRatio      = "cost_ratio"
	recomputations = "recomputations"
)

// ofOperators reads a plan of operators, whose document is root: recomputations are its placements, and the values
// that the backward half reads of the forward half its stashes.
func ofOperators(data []byte, root map[string]any, name string) (*Subject, error) {
	p, err := pytorch.ReadOperatorSchedule(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	known := list{known: true}
	s := &Subject{Name: name, Kind: OperatorsKind, Schema: operatorsSchema, Structure: p.Structure,
		order: recompute.NodeOrder(p.Order), regions: known, placements: known, stashes: known}
	for _, a := range p.Again {
		s.placements.items = append(s.placements.items, newPlacement(a.Node, a.Before, []string{a.Node}))
	}
	for _, v := range p.Stashed {
		kept := "recomputed"
		if v.Kept {
			kept = "kept"
		}
		facts := []Fact{{"state", NoUnit, textValue(kept)}, {"bytes", Bytes, intValue(v.Bytes)},
			{"producer", NoUnit, textValue(v.Producer)}}
		s.stashes.items = append(s.stashes.items, item{v.Value, layerOf(v.Producer, v.Value), facts})
	}
	for _, key := range []string{"format", "version", "graphs"} {
		delete(root, key)
	}
	root["nodes"] = json.Number(strconv.Itoa(p.Nodes))
	root[recomputations] = json.Number(strconv.Itoa(len(p.Again)))
	cost, _ := leaf(root["cost_us"])
	base, _ := leaf(root["base_cost_us"])
	if cost.Number != nil && base.Number != nil && base.Number.Sign() > 0 {
		c, _ := cost.Number.Float64()
		b, _ := base.Number.Float64()
		root[costRatio] = json.Number(strconv.FormatFloat(c/b, 'g', -1, 64))
		root[stepTime] = json.Number(strconv.FormatFloat(c/1000, 'g', -1, 64))
	}
	for _, key := range []string{"cost_us", "base_cost_us", "bound_us"} {
		delete(root, key) // measures say them
	}
	r := reader{name: name}
	return s, r.finish(s, root)
}
