package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveDepthSpaceCases) }

func moveDepthSpaceCases() []Case {
	var all []Case
	add := func(x *executor.Tensor, b int) {
		n, ch, h, w := x.Shape[0], x.Shape[1]/(b*b), x.Shape[2], x.Shape[3]
		shape := []int{n, ch, h * b, w * b}
		attrs := func(mode string) []graph.Attr { return moveAttrs("blocksize", int64(b), "mode", mode) }
		dcr := movePick(x, shape, func(i []int) int {
			return moveAt(x.Shape, i[0], (i[2]%b*b+i[3]%b)*ch+i[1], i[2]/b, i[3]/b)
		})
		crd := movePick(x, shape, func(i []int) int {
			return moveAt(x.Shape, i[0], i[1]*b*b+i[2]%b*b+i[3]%b, i[2]/b, i[3]/b)
		})
		all = append(all,
			moveCase(op.DepthToSpace, fmt.Sprint("DCR ", x), dcr, attrs("DCR"), x),
			moveCase(op.DepthToSpace, fmt.Sprint("CRD ", x), crd, attrs("CRD"), x),
			moveCase(op.SpaceToDepth, fmt.Sprint(dcr), x, moveAttrs("blocksize", int64(b)), dcr))
	}
	for _, d := range moveTypes {
		add(moveCount(d, 2, 8, 2, 3), 2)
	}
	add(moveCount(graph.Float32, 1, 9, 3, 2), 3)
	add(moveCount(graph.Float32, 2, 3, 2, 2), 1)
	add(moveCount(graph.Float32, 0, 4, 2, 2), 2)
	add(moveCount(graph.Float32, 2, 16, 40, 30), 2)
	x := moveCount(graph.Float32, 1, 6, 2, 3)
	return append(all,
		moveFails(op.DepthToSpace, "channels", "multiple", moveAttrs("blocksize", int64(2)), x),
		moveFails(op.SpaceToDepth, "plane", "multiple", moveAttrs("blocksize", int64(2)), x),
		moveFails(op.SpaceToDepth, "no blocksize", "blocksize", nil, x),
		moveFails(op.DepthToSpace, "mode", "mode", moveAttrs("blocksize", int64(2), "mode", "RCD"), x),
		moveFails(op.DepthToSpace, "rank", "rank", moveAttrs("blocksize", int64(2)), moveCount(graph.Float32, 4, 4)))
}
