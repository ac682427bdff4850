// RoiAlign and MaxRoiPool: regions of planes are pooled to bins. One thread per bin and channel. Places are computed in f64, as the
// host does, so that both come to the same elements.
#include "anyfloat.h"

struct roi_args {
	const void *x, *rois;
	const i64 *batch; // RoiAlign: the image of each region
	void *y;
	u32 *bad;   // the largest complement of a number of an element of rois that is no place
	u32 *image; // the same of regions whose image there is not
	i64 n;
	i32 images, channels, in_height, in_width, height, width;
	u32 type, largest; // largest: not the mean
	i32 ratio;         // points per bin and axis; 0: as many as it has elements
	f32 scale, offset; // of the centre of an element
};

// roi_work is a thread's bin: channel c of region r.
struct roi_work { i64 r; i32 c, row, column; };

DEV inline roi_work roi_of(const roi_args &a, i64 i) {
	i64 line = i / a.width, plane = line / a.height, r = plane / a.channels;
	return roi_work{r, (i32)(plane - r * a.channels), (i32)(line - plane * a.height), (i32)(i - line * a.width)};
}

// roi_valid looks at the region's numbers and its image.
DEV inline bool roi_valid(const roi_args &a, i64 r, i32 count, f64 image) {
	for (i32 k = 0; k < count; k++) {
		f64 v = (f64)stat(a.rois, a.type, r * count + k) * a.scale;
		if (!(v < 65536.0 && v > -65536.0)) {
			atomic_max(a.bad, ~(u32)(r * count + k));
			return false;
		}
	}
	if (image >= 0 && image < a.images) return true;
	atomic_max(a.image, ~(u32)r);
	return false;
}

// roi_grid is one axis of a region.
struct roi_grid {
	f64 start, bin;
	i32 points;
	DEV f64 at(i32 b, i32 i) const { return start + b * bin + (i + 0.5) * bin / points; }
};

DEV inline roi_grid grid_of(const roi_args &a, i64 lo, i64 hi, i32 bins) {
	f64 start = (f64)stat(a.rois, a.type, lo) * a.scale - a.offset, length = (f64)stat(a.rois, a.type, hi) * a.scale - a.offset - start;
	if (a.offset == 0 && !(length > 1)) length = 1;
	f64 bin = length / bins;
	return roi_grid{start, bin, a.ratio ? a.ratio : (i32)round_up(bin)};
}

// roi_near finds the elements beside a place, and how far it is from the first.
DEV inline f32 roi_near(f64 at, i32 n, i32 *lo, i32 *hi) {
	if (at < 0) at = 0;
	*lo = (i32)at;
	if (*lo >= n - 1) {
		*lo = *hi = n - 1;
		return 0;
	}
	*hi = *lo + 1;
	return (f32)(at - *lo);
}

KERNEL(roi_align, roi_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		roi_work k = roi_of(a, i);
		f32 sum = 0, largest = -F32_INF;
		i64 count = 0;
		if (roi_valid(a, k.r, 4, (f64)a.batch[k.r])) {
			roi_grid gx = grid_of(a, 4 * k.r, 4 * k.r + 2, a.width), gy = grid_of(a, 4 * k.r + 1, 4 * k.r + 3, a.height);
			i64 plane = (a.batch[k.r] * a.channels + k.c) * a.in_height * a.in_width;
			count = gx.points > 0 && gy.points > 0 ? (i64)gx.points * gy.points : 0;
			for (i64 point = 0; point < count; point++) {
				f64 y = gy.at(k.row, (i32)(point / gx.points)), x = gx.at(k.column, (i32)(point % gx.points));
				f32 v[4] = {0, 0, 0, 0};
				if (y >= -1 && y <= a.in_height && x >= -1 && x <= a.in_width) {
					i32 x0, x1, y0, y1;
					f32 fy = roi_near(y, a.in_height, &y0, &y1), fx = roi_near(x, a.in_width, &x0, &x1);
					i64 upper = plane + (i64)y0 * a.in_width, lower = plane + (i64)y1 * a.in_width;
					v[0] = (1 - fy) * (1 - fx) * stat(a.x, a.type, upper + x0), v[1] = (1 - fy) * fx * stat(a.x, a.type, upper + x1);
					v[2] = fy * (1 - fx) * stat(a.x, a.type, lower + x0), v[3] = fy * fx * stat(a.x, a.type, lower + x1);
				}
				UNROLL
				for (int j = 0; j < 4; j++) {
					sum += v[j];
					largest = v[j] > largest || v[j] != v[j] ? v[j] : largest;
				}
			}
		}
		put_stat(a.y, a.type, i, count == 0 ? 0.0f : a.largest ? largest : sum / (f32)count);
	}
}

// half_away rounds halves away from 0.
DEV inline f64 half_away(f64 x) {
	f64 t = truncate(x), far = x - t;
	return far >= 0.5 ? t + 1 : far <= -0.5 ? t - 1 : t;
}

// roi_span finds the elements of bin b of an axis.
DEV inline void roi_span(const roi_args &a, i64 from, i64 to, i32 b, i32 bins, i32 n, i32 *lo, i32 *hi) {
	f64 start = half_away((f64)stat(a.rois, a.type, from) * a.scale);
	f64 length = half_away((f64)stat(a.rois, a.type, to) * a.scale) - start + 1, bin = (length > 1 ? length : 1.0) / bins;
	i64 first = (i64)(round_down(b * bin) + start), last = (i64)(round_up((b + 1) * bin) + start);
	*lo = first < 0 ? 0 : first > n ? n : (i32)first;
	*hi = last < 0 ? 0 : last > n ? n : (i32)last;
}

KERNEL(max_roi, roi_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		roi_work k = roi_of(a, i);
		f32 best = 0, image = stat(a.rois, a.type, 5 * k.r);
		if (roi_valid(a, k.r, 5, image)) {
			i32 h0, h1, w0, w1;
			roi_span(a, 5 * k.r + 2, 5 * k.r + 4, k.row, a.height, a.in_height, &h0, &h1);
			roi_span(a, 5 * k.r + 1, 5 * k.r + 3, k.column, a.width, a.in_width, &w0, &w1);
			i64 plane = ((i64)image * a.channels + k.c) * a.in_height * a.in_width;
			bool any = false;
			for (i32 h = h0; h < h1; h++) {
				for (i32 w = w0; w < w1; w++) {
					f32 v = stat(a.x, a.type, plane + (i64)h * a.in_width + w);
					best = !any || v > best || v != v ? v : best;
					any = true;
				}
			}
		}
		put_stat(a.y, a.type, i, best);
	}
}
