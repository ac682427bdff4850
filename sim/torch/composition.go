package torch

// Parts are the bytes that are live at the peak of a run beside those that are held.
type Parts struct {
	Gradients   int64 // of parameters, which stay
	Activations int64 // made in the forward half, and needed in the backward half; states of generators
	Temporaries int64 // all others
	Work        int64 // of the kernel that runs
}

// Parts divides up the peak of the last run, which had so many checkpoints.
func (s *Simulator) Parts(checkpoints int) Parts {
	p := Parts{Work: s.p.Steps[s.seq[s.peak].step].Work}
	for c := range checkpoints {
		if s.final[c] >= 0 && int(s.begins(int32(c))) <= s.peak && s.peak <= int(s.final[c]) {
			p.Activations += s.state
		}
	}
	for at, pl := range s.seq[:s.peak+1] {
		step := &s.p.Steps[pl.step]
		for _, id := range step.Makes {
			end := s.ends(id, pl, at)
			if int(end) < s.peak {
				continue
			}
			switch n := s.p.Storages[id].Bytes; {
			case step.Backward && s.p.Storages[id].Kept:
				p.Gradients += n
			case !step.Backward && pl.again < 0 && s.last[id] > s.middle:
				p.Activations += n
			default:
				p.Temporaries += n
			}
		}
	}
	return p
}
