package simd

// Lanes is the number of partial results of a reduction: element i goes to partial
// result i mod Lanes, and these are combined in pairs, lower half with upper half.
const Lanes = 16

// Sum returns the sum of a, in the order that Lanes describes.
func Sum(a []float32) float32 {
	if useAVX2 {
		return sumAVX2(ptr(a, len(a)), len(a))
	}
	var s [Lanes]float32
	for i, v := range a {
		s[i%Lanes] += v
	}
	return fold(&s)
}

// SumAbs returns the sum of |a[i]|, in the order that Lanes describes.
func SumAbs(a []float32) float32 {
	if useAVX2 {
		return sumAbsAVX2(ptr(a, len(a)), len(a))
	}
	var s [Lanes]float32
	for i, v := range a {
		s[i%Lanes] += abs(v)
	}
	return fold(&s)
}

// Dot returns the sum of a[i]*b[i], in the order that Lanes describes.
func Dot(a, b []float32) float32 {
	if useAVX2 {
		n := len(a)
		return dotAVX2(ptr(a, n), ptr(b, n), n)
	}
	var s [Lanes]float32
	for i, v := range a {
		s[i%Lanes] += float32(v * b[i])
	}
	return fold(&s)
}

// SumSquares returns the sum of (a[i]-m)², in the order that Lanes describes.
func SumSquares(a []float32, m float32) float32 {
	if useAVX2 {
		return sumSquaresAVX2(ptr(a, len(a)), len(a), m)
	}
	var s [Lanes]float32
	for i, v := range a {
		d := v - m
		s[i%Lanes] += float32(d * d)
	}
	return fold(&s)
}

func fold(s *[Lanes]float32) float32 {
	for n := Lanes / 2; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[i+n]
		}
	}
	return s[0]
}

// Max returns the largest element of a, which is not empty; NaN if there is one.
func Max(a []float32) float32 {
	m := a[0]
	if useAVX2 {
		return maxAVX2(ptr(a, len(a)), len(a))
	}
	for _, v := range a[1:] {
		m = max(m, v)
	}
	return m
}
