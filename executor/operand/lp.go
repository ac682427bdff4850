package operand

import "memopt/executor"

// LpOrder reads the order p of LpPool and GlobalLpPool: a float in version 1, and a whole number
// from version 2 on.
func LpOrder(p *executor.Prep) (float64, error) {
	order := float64(p.Node.Float("p", float32(p.Node.Int("p", 2))))
	if !(order >= 1 && order <= 1<<20) {
		return 0, p.Errorf("attribute p is %g, wanted at least 1", order)
	}
	return order, nil
}
