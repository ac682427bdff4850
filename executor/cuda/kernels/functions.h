// Elementary functions of floats, the same code on the device and on the host. Series are Taylor's, cut where the next
// term is below half a unit in the last place; bounds in ulps are held by functions_test.go.
#ifndef MEMOPT_FUNCTIONS_H
#define MEMOPT_FUNCTIONS_H

// scale returns x * 2^n for -300 < n < 300, rounded once where the result is subnormal.
DEV inline f32 scale(f32 x, i32 n) {
	i32 half = n / 2;
	return x * from_bits((u32)(127 + half) << 23) * from_bits((u32)(127 + n - half) << 23);
}
DEV inline f64 scale(f64 x, i32 n) {
	i32 half = n / 2;
	return x * from_bits64((u64)(1023 + half) << 52) * from_bits64((u64)(1023 + n - half) << 52);
}

// exponential: x = n*ln 2 + r, |r| <= ln 2 / 2.
DEV inline f32 exponential(f32 x) {
	if (x > 88.8f) return F32_INF;
	if (x < -104.0f) return 0;
	f32 n = to_nearest(x * 1.44269504f);
	f32 r = fused(n, -0.693145752f, x); // ln 2's first 17 bits, then the rest
	r = fused(n, -1.42860677e-6f, r);
	f32 p = 1.98412698e-4f; // 1/7!
	p = fused(p, r, 1.38888889e-3f);
	p = fused(p, r, 8.33333333e-3f);
	p = fused(p, r, 4.16666667e-2f);
	p = fused(p, r, 1.66666667e-1f);
	p = fused(p, r, 0.5f);
	p = fused(p * r, r, r) + 1.0f;
	return x != x ? x : scale(p, (i32)n);
}
DEV inline f64 exponential(f64 x) {
	if (x > 709.8) return (f64)F32_INF;
	if (x < -746.0) return 0;
	f64 n = to_nearest(x * 1.4426950408889634);
	f64 r = fused(n, -0.6931471805599453, x);
	r = fused(n, -2.3190468138462996e-17, r);
	f64 p = 1.0 / 6227020800.0; // 1/13!
	p = fused(p, r, 1.0 / 479001600.0);
	p = fused(p, r, 1.0 / 39916800.0);
	p = fused(p, r, 1.0 / 3628800.0);
	p = fused(p, r, 1.0 / 362880.0);
	p = fused(p, r, 1.0 / 40320.0);
	p = fused(p, r, 1.0 / 5040.0);
	p = fused(p, r, 1.0 / 720.0);
	p = fused(p, r, 1.0 / 120.0);
	p = fused(p, r, 1.0 / 24.0);
	p = fused(p, r, 1.0 / 6.0);
	p = fused(p, r, 0.5);
	p = fused(p * r, r, r) + 1.0;
	return x != x ? x : scale(p, (i32)n);
}

// exp_minus_1 returns exp(x) - 1.
DEV inline f32 exp_minus_1(f32 x) {
	if (x > 0.5f || x < -0.5f) return exponential(x) - 1.0f;
	f32 p = 2.48015873e-5f; // 1/8!
	p = fused(p, x, 1.98412698e-4f);
	p = fused(p, x, 1.38888889e-3f);
	p = fused(p, x, 8.33333333e-3f);
	p = fused(p, x, 4.16666667e-2f);
	p = fused(p, x, 1.66666667e-1f);
	p = fused(p, x, 0.5f);
	return fused(p * x, x, x);
}

// logarithm: x = 2^e * (1+f), sqrt(1/2) <= 1+f < sqrt(2); with s = f/(2+f),
// log(1+f) = 2 atanh(s) = f - s*(f - R), R = 2 s^2 (1/3 + s^2/5 + ...).
DEV inline f32 logarithm(f32 x) {
	if (!(x > 0)) return x == 0 ? -F32_INF : F32_NAN;
	if (x == F32_INF) return x;
	i32 e = 0;
	if (x < 1.17549435e-38f) x *= 8388608.0f, e = -23;
	u32 u = bits_of(x) - 0x3f3504f3u; // 0x3f3504f3: sqrt(1/2)
	e += (i32)u >> 23;
	f32 f = from_bits((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
	f32 s = f / (2.0f + f), z = s * s;
	f32 r = 0.222222222f; // 2/9
	r = fused(r, z, 0.285714286f);
	r = fused(r, z, 0.4f);
	r = fused(r, z, 0.666666667f) * z;
	f32 n = (f32)e, low = fused(-s, f - r, n * 1.42860677e-6f);
	return fused(n, 0.693145752f, f + low);
}
DEV inline f64 logarithm(f64 x) {
	if (!(x > 0)) return x == 0 ? -(f64)F32_INF : (f64)F32_NAN;
	if (x == (f64)F32_INF) return x;
	i32 e = 0;
	if (x < 2.2250738585072014e-308) x *= 4503599627370496.0, e = -52;
	u64 u = bits_of(x) - 0x3fe6a09e667f3bcdull;
	e += (i32)((i64)u >> 52);
	f64 f = from_bits64((u & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0;
	f64 s = f / (2.0 + f), z = s * s, r = 2.0 / 23;
	for (i32 k = 21; k >= 3; k -= 2) r = fused(r, z, 2.0 / k);
	r *= z;
	f64 n = e, low = fused(-s, f - r, n * 2.3190468138462996e-17);
	return fused(n, 0.6931471805599453, f + low);
}

// log_plus_1 returns log(1+x): what rounding 1+x loses is put back.
DEV inline f32 log_plus_1(f32 x) {
	f32 u = 1.0f + x;
	if (u == F32_INF || !(u > 0)) return logarithm(u);
	f32 lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
	return logarithm(u) + lost / u;
}

DEV inline f32 tanh_of(f32 x) {
	f32 m = x < 0 ? -x : x;
	if (m > 9.02f) return x > 0 ? 1.0f : -1.0f;
	if (m < 1e-4f) return x;
	f32 t = exp_minus_1(2.0f * m), y = t / (t + 2.0f);
	if (x != x) return x;
	return x < 0 ? -y : y;
}

DEV inline f32 sigmoid(f32 x) { return 1.0f / (1.0f + exponential(-x)); }

// softplus returns log(1 + exp(x)).
DEV inline f32 softplus(f32 x) { return x > 0 ? x + log_plus_1(exponential(-x)) : log_plus_1(exponential(x)); }

// erf: Taylor's series near 0; beyond, 1 - exp(-x^2 - g), g interpolated at Chebyshev's nodes over [0.9, 4.1].
DEV inline f32 erf_of(f32 x) {
	f32 m = x < 0 ? -x : x, z = x * x;
	if (m < 0.95f) {
		f32 p = 1.0f / 76204800.0f; // the terms (-1)^n / (n! (2n+1)) from n = 10 on
		p = fused(p, z, -1.0f / 6894720.0f);
		p = fused(p, z, 1.0f / 685440.0f);
		p = fused(p, z, -1.0f / 75600.0f);
		p = fused(p, z, 1.0f / 9360.0f);
		p = fused(p, z, -1.0f / 1320.0f);
		p = fused(p, z, 1.0f / 216.0f);
		p = fused(p, z, -1.0f / 42.0f);
		p = fused(p, z, 1.0f / 10.0f);
		p = fused(p, z, -1.0f / 3.0f);
		f32 y = x * 1.12837917f; // 2/sqrt(pi)
		return fused(y * p, z, y);
	}
	if (x != x) return x;
	f32 y = 1.0f;
	if (m < 4.0f) {
		f32 t = (m - 2.5f) * 0.625f;
		f32 g = -6.90162161e-5f;
		g = fused(g, t, 3.58298509e-4f);
		g = fused(g, t, -1.29854589e-3f);
		g = fused(g, t, 4.40402415e-3f);
		g = fused(g, t, -1.41898336e-2f);
		g = fused(g, t, 4.44771134e-2f);
		g = fused(g, t, -1.43632183e-1f);
		g = fused(g, t, 5.64289026e-1f);
		g = fused(g, t, 1.55681527f);
		y = 1.0f - exponential(-fused(m, m, g));
	}
	return x < 0 ? -y : y;
}

// reduce returns x - q*pi/2 for the nearest q, of which it stores the last two bits.
DEV inline f64 reduce_quarter(f32 x, u32 *q) {
	if (x < 1e5f && x > -1e5f) {
		f64 n = to_nearest((f64)x * 0.6366197723675814);
		*q = (u32)(i32)n;
		return fused(n, -6.123233995736766e-17, fused(n, -1.5707963267948966, (f64)x));
	}
	// Payne and Hanek 1983: of 2/pi only the bits matter that x does not shift out of the last two before the point.
	CONSTANT u32 two_over_pi[] = {
	    0, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};
	u32 u = bits_of(x), m = (u & 0x7fffffu) | 0x800000u;
	i32 e = (i32)(u >> 23 & 255) - 150; // |x| = m * 2^e
	i32 skip = e + 30; // bits before the point of 2^e/pi * 2 that are multiples of 4, counted in the table
	i32 word = skip / 32, bit = skip % 32;
	u32 w[3];
	for (i32 i = 0; i < 3; i++) {
		u64 two = (u64)two_over_pi[word + i] << 32 | two_over_pi[word + i + 1];
		w[i] = (u32)(two << bit >> 32);
	}
	// m * 0.w0w1w2, of which the integer part's last two bits and the fraction follow.
	u64 low = (u64)m * w[2], mid = (u64)m * w[1] + (low >> 32), high = (u64)m * w[0] + (mid >> 32);
	u64 fixed = high << 32 | (u32)mid; // the point is 62 bits up
	u64 whole = fixed >> 62;
	i64 rest = (i64)(fixed << 2);
	if (rest < 0) whole++;
	f64 r = (f64)rest * 8.515303950216386e-20; // pi/2 / 2^64
	if (u >> 31) r = -r, whole = 0 - whole;
	*q = (u32)whole;
	return r;
}
// sine_near and cosine_near are for |r| <= pi/4.
DEV inline f32 sine_near(f32 r) {
	f32 z = r * r, p = 2.75573192e-6f; // 1/9!
	p = fused(p, z, -1.98412698e-4f);
	p = fused(p, z, 8.33333333e-3f);
	p = fused(p, z, -1.66666667e-1f);
	return fused(p * z, r, r);
}
DEV inline f32 cosine_near(f32 r) {
	f32 z = r * r, p = -2.75573192e-7f; // -1/10!
	p = fused(p, z, 2.48015873e-5f);
	p = fused(p, z, -1.38888889e-3f);
	p = fused(p, z, 4.16666667e-2f);
	p = fused(p, z, -0.5f);
	return fused(p, z, 1.0f);
}
DEV inline f32 quarter_wave(f32 r, u32 q) {
	f32 y = q & 1 ? cosine_near(r) : sine_near(r);
	return q & 2 ? -y : y;
}
DEV inline f32 sine(f32 x) {
	if (!(x - x == 0)) return F32_NAN;
	u32 q;
	f64 r = reduce_quarter(x, &q);
	return quarter_wave((f32)r, q);
}
DEV inline f32 cosine(f32 x) {
	if (!(x - x == 0)) return F32_NAN;
	u32 q;
	f64 r = reduce_quarter(x, &q);
	return quarter_wave((f32)r, q + 1);
}
DEV inline f32 tangent(f32 x) {
	if (!(x - x == 0)) return F32_NAN;
	u32 q;
	f32 r = (f32)reduce_quarter(x, &q);
	return q & 1 ? -cosine_near(r) / sine_near(r) : sine_near(r) / cosine_near(r);
}

// arc returns atan(x): twice atan(x) = 2 atan(x / (1 + sqrt(1 + x^2))), then the series.
DEV inline f64 arc(f64 x) {
	f64 m = x < 0 ? -x : x, t = m > 1 ? 1 / m : m;
	t = t / (1 + square_root(fused(t, t, 1.0)));
	t = t / (1 + square_root(fused(t, t, 1.0)));
	f64 z = t * t, p = 1.0 / 17;
	for (i32 k = 15; k >= 3; k -= 2) p = fused(-p, z, 1.0 / k);
	f64 y = 4 * fused(-p * z, t, t);
	if (m > 1) y = 1.5707963267948966 - y;
	return x < 0 ? -y : y;
}
DEV inline f32 arc_tangent(f32 x) { return x != x ? x : (f32)arc(x); }
DEV inline f32 arc_sine(f32 x) {
	f64 c = ((f64)1 - x) * ((f64)1 + x);
	if (!(c >= 0)) return F32_NAN;
	if (c == 0) return x > 0 ? 1.57079633f : -1.57079633f;
	return (f32)arc(x / square_root(c));
}
DEV inline f32 arc_cosine(f32 x) {
	f64 c = ((f64)1 - x) * ((f64)1 + x);
	if (!(c >= 0)) return F32_NAN;
	if (x == -1.0f) return 3.14159265f;
	return (f32)(2 * arc(square_root(((f64)1 - x) / ((f64)1 + x))));
}

// The hyperbolic functions go by float64 where float32 would cancel.
DEV inline f32 hyperbolic_sine(f32 x) {
	if (x < 1e-3f && x > -1e-3f) return fused(x * x * 0.166666667f, x, x);
	f64 e = exponential((f64)x);
	return (f32)(0.5 * (e - 1 / e));
}
DEV inline f32 hyperbolic_cosine(f32 x) {
	f64 e = exponential((f64)x);
	return (f32)(0.5 * (e + 1 / e));
}
DEV inline f32 area_sine(f32 x) {
	if (x < 1e-3f && x > -1e-3f) return fused(x * x * -0.166666667f, x, x);
	f64 m = x < 0 ? -(f64)x : (f64)x, y = logarithm(m + square_root(fused(m, m, 1.0)));
	return (f32)(x < 0 ? -y : y);
}
DEV inline f32 area_cosine(f32 x) {
	if (!(x >= 1.0f)) return F32_NAN;
	f64 m = x;
	return (f32)logarithm(m + square_root((m - 1) * (m + 1)));
}
DEV inline f32 area_tangent(f32 x) {
	if (x < 1e-3f && x > -1e-3f) return fused(x * x * 0.333333333f, x, x);
	return (f32)(0.5 * logarithm(((f64)1 + x) / ((f64)1 - x)));
}

// power returns x^y as IEEE 754's pow does.
DEV inline f32 power(f32 x, f32 y) {
	if (y == 0 || x == 1.0f) return 1.0f;
	if (x != x || y != y) return F32_NAN;
	f32 m = x < 0 ? -x : x;
	bool negative = bits_of(x) >> 31 != 0, whole = truncate(y) == y;
	bool odd = whole && m == m && (y < 16777216.0f && y > -16777216.0f) && ((i32)y & 1);
	if (y - y != 0) { // infinite
		if (m == 1.0f) return 1.0f;
		return (m > 1.0f) == (y > 0) ? F32_INF : 0.0f;
	}
	f32 z;
	if (m == 0 || m == F32_INF) z = (m == 0) == (y > 0) ? 0.0f : F32_INF;
	else if (negative && !whole) return F32_NAN;
	else z = (f32)exponential((f64)y * logarithm((f64)m));
	return negative && odd ? -z : z;
}
#endif
