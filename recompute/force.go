package recompute

import (
	"cmp"
	"errors"
	"slices"

	"memopt/graph"
)

// replayPolicy lets every node run twice that can be replayed.
type replayPolicy struct{ *Replays }

func (p replayPolicy) reject(id graph.NodeID) string { return p.WhyNot(id) }
func (replayPolicy) skip(graph.NodeID) []int         { return nil }

// Force returns the forced recomputation of entries, nodes with stashed outputs, together with the
// bytes that they show: chains has, for each, the views from the entry up to the node that makes
// these bytes, the entry and that node included. Force takes an entry's own candidate, whatever the
// probe; without one, a subgraph of nodes that can be replayed at all (Replays). No node marked in
// kept is recomputed: its outputs are available. kept is by node; nil means that no node is kept. An
// entry that cannot be recomputed even so is returned as a rejection.
func (a *Analysis) Force(chains [][]graph.NodeID, kept []bool) (forced []Candidate, rejected []Rejection) {
	var s *search
	for _, chain := range chains {
		entry := chain[0]
		if c, ok := a.forcible(chain, kept); ok {
			forced = append(forced, c)
			continue
		}
		if s == nil {
			s = newSearch(a, nil)
			s.policy = replayPolicy{NewReplays(a.Model)}
			for id, k := range kept {
				s.entry[id] = s.entry[id] || k
			}
		}
		c := Candidate{Entry: entry, Strategy: Full, Ratio: Ratio{1, 1}, Stashed: a.stashedOf(entry), Cluster: -1}
		if no := s.follow(chain, &c); no != nil {
			rejected = append(rejected, *no)
		} else {
			forced = append(forced, c)
		}
	}
	return forced, rejected
}

// follow collects the nodes that make a chain again.
func (s *search) follow(chain []graph.NodeID, c *Candidate) *Rejection {
	for _, id := range chain {
		if why := s.policy.reject(id); why != "" {
			return &Rejection{chain[0], id, why}
		}
		f := s.subgraph(id, false)
		if !f.ok() {
			return &Rejection{chain[0], f.blocker, f.why}
		}
		c.Nodes = append(c.Nodes, f.nodes...)
	}
	slices.SortFunc(c.Nodes, func(x, y graph.NodeID) int { return cmp.Compare(s.pos[x], s.pos[y]) })
	c.Nodes = slices.Compact(c.Nodes)
	return nil
}

// forcible returns the first candidate of a chain's entry that can be cloned, recomputes all of the
// chain, and recomputes no kept node.
func (a *Analysis) forcible(chain []graph.NodeID, kept []bool) (Candidate, bool) {
	for _, i := range a.OfEntry(chain[0]) {
		c := &a.Candidates[i]
		missing := func(id graph.NodeID) bool { return !slices.Contains(c.Nodes, id) }
		if a.Uncloneable(i) == "" && !c.Runs(kept) && !slices.ContainsFunc(chain, missing) {
			return *c, true
		}
	}
	return Candidate{}, false
}

// stashedOf lists the stashed outputs of an entry.
func (a *Analysis) stashedOf(entry graph.NodeID) (values []graph.ValueID) {
	for i := range a.Stashed {
		if a.Stashed[i].Node == entry {
			values = append(values, a.Stashed[i].Value)
		}
	}
	return values
}

// Runs reports whether the candidate runs any of the marked nodes; marked is by node or nil.
func (c *Candidate) Runs(marked []bool) bool {
	if marked == nil {
		return false
	}
	for _, id := range c.Nodes {
		if marked[id] {
			return true
		}
	}
	return false
}

// ErrDemand means that a demand to keep or to recompute values cannot be obeyed.
var ErrDemand = errors.New("values to keep or recompute")
