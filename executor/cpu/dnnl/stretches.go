package dnnl

// Span is a stretch of an axis: N elements from From on.
type Span struct{ From, N int }

const (
	// block is the number of channels that oneDNN's layouts keep together.
	block = 16
	// with fewer pieces, threads would starve
	fewPieces = 8
	// With fewer than leastSlice channels of the output a piece is slow; with more than mostSlice,
	// its weights exceed the second-level cache.
	leastSlice, mostSlice = 2 * block, 128
	// slotBytes bounds the part of the output that a piece makes at a time.
	slotBytes = 1 << 20
	// roundBytes bounds the inputs in oneDNN's layout that are kept at a time.
	roundBytes = 8 << 20
)

// stretches cut the elements of an axis from one up to, but without, another into spans of a size; the last may be
// shorter. An axis of images may have more of them than there is memory to list.
type stretches struct{ from, to, size int }

// spans cuts a whole axis.
func spans(total, size int) stretches { return stretches{0, total, size} }

func (s stretches) len() int { return ceil(s.to-s.from, s.size) }

// at is the span of a number.
func (s stretches) at(i int) Span {
	from := s.from + i*s.size
	return Span{from, min(s.size, s.to-from)}
}

// part is so many of the stretches, or those that there are, from one on.
func (s stretches) part(first, count int) stretches {
	from := s.from + first*s.size
	return stretches{from, min(from+count*s.size, s.to), s.size}
}

// slice is the size, in whole blocks, of the slices of an axis of channels that should be cut into
// count of them.
func slice(total, count, least int) int {
	return min(max(roundUp(ceil(total, count), block), least), max(total, 1))
}

func ceil(a, b int) int { return (a + b - 1) / b }

func roundUp(n, to int) int { return ceil(n, to) * to }

// cut says where a problem is cut along its axes, and how many stretches of images make a round:
// the inputs of a round are copied together, and rounds follow one another.
//
// The gradient of the weights is cut along both kinds of channels; the results of the rounds are
// added up. Other directions are cut along the channels of the output, and into images.
func (p *Problem) cut() (axes [3]stretches, round int) {
	if p.Direction == BackwardWeights {
		return p.cutWeights()
	}
	out, in := axisM, opX
	if p.Direction == BackwardData {
		out, in = axisC, opY
	}
	size := slice(p.size(out), fewPieces, leastSlice)
	slices := ceil(p.size(out), size)
	perImage := 4 * size * p.plane(roles[p.Direction].out)
	images := max(1, min(slotBytes/perImage, p.N))
	if slices*ceil(p.N, images) < fewPieces {
		images = max(1, p.N/ceil(fewPieces, slices))
	}
	if pieces := slices * ceil(p.N, images); pieces < fewPieces && size > block {
		size = slice(p.size(out), slices*ceil(fewPieces, pieces), block)
	}
	for a := range axes {
		axes[a] = spans(p.size(axis(a)), p.size(axis(a)))
	}
	axes[axisN], axes[out] = spans(p.N, images), spans(p.size(out), size)
	perGroup := 4 * images * padded(p.size(axesOf[in][1])) * p.plane(in)
	return axes, max(1, min(roundBytes/perGroup, axes[axisN].len()))
}

// cutWeights halves the larger kind of channels until there are enough pieces and all are small
// enough.
func (p *Problem) cutWeights() (axes [3]stretches, round int) {
	c, m := p.C, p.M
	for max(c, m) > mostSlice || ceil(p.C, c)*ceil(p.M, m) < fewPieces {
		switch {
		case m > block && (m >= c || c <= leastSlice):
			m = slice(m, 2, block)
		case c > block:
			c = slice(c, 2, block)
		default:
			return p.withChannels(c, m)
		}
	}
	return p.withChannels(c, m)
}

func (p *Problem) withChannels(c, m int) (axes [3]stretches, round int) {
	perImage := 4 * (padded(p.C)*p.plane(opX) + padded(p.M)*p.plane(opY))
	images := max(1, min(roundBytes/perImage, p.N))
	return [3]stretches{axisN: spans(p.N, images), axisC: spans(p.C, c), axisM: spans(p.M, m)}, 1
}

// padded is the number of channels in the library's layout: the few of an image are not padded.
func padded(channels int) int {
	if channels < block {
		return channels
	}
	return roundUp(channels, block)
}
