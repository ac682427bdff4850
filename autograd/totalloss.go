package autograd

import (
	"errors"

	"memopt/graph"
)

// TotalLoss names the weighted sum of several losses, a graph output (Options.LossOutput).
const TotalLoss = "total_loss"

// nameLoss names the loss: the one that is differentiated, if it is a scalar that counts once. If
// an output of it is wanted, it becomes one, and several losses are added up.
func (j *joint) nameLoss(losses []lossValue, output bool) error {
	first := losses[0]
	seeds := false
	for _, l := range losses {
		seeds = seeds || l.Seed
	}
	elements, _ := j.g.Values[first.value].Type.Shape.Elements().Const()
	one := len(losses) == 1 && (first.Weight == 0 || first.Weight == 1) && elements == 1
	switch {
	case one:
		j.out.Loss = first.Name
	case !output:
		return nil
	case seeds:
		return errors.New("no output can be the loss: gradients of losses come from outside (seeds), which " +
			"alone determine the loss; leave the seeds out, or differentiate one scalar")
	default:
		return j.addTotal(losses)
	}
	if output {
		return outputLoss(j.g, first.value)
	}
	return nil
}

// addTotal adds up the losses, each times its weight, in the type of the first.
func (j *joint) addTotal(losses []lossValue) error {
	j.node, j.prefix = nil, "/"+TotalLoss+"/"
	e, sum := &emitter{j}, None
	for _, l := range losses {
		v := l.value
		if dims, _ := e.Dims(v); len(dims) > 0 {
			v = e.Reshape(v, e.Vector())
		}
		if l.Weight != 0 && l.Weight != 1 {
			v = e.Mul(v, e.Scalar(l.Weight, v))
		}
		if sum == None {
			sum = v
		} else {
			sum = e.Add(sum, e.Cast(v, e.DType(sum)))
		}
	}
	j.out.Loss = TotalLoss
	return j.addOutput(TotalLoss, sum, "the sum of the losses")
}

// behind appends to an order the nodes that have been emitted since there were that many.
func (j *joint) behind(order graph.Order, nodes int) graph.Order {
	for i := nodes; i < len(j.g.Nodes); i++ {
		order = append(order, graph.NodeID(i))
	}
	return order
}
