// Columns of DeformConv, and MaxUnpool's elements.
#include "anyfloat.h"
#include "window.h"

struct deform_args {
	const void *x, *offset, *mask; // of one image; the mask may be null
	void *y;                       // columns
	i64 n;                         // offset groups, taps, and places of a piece of the output
	i64 first, row;                // the first place, and elements from one row of columns to the next
	i64 plane;                     // places of the output
	i32 channels;                  // of an offset group
	u32 type;
	divider by_places, by_taps;
	window w;
};

// deform_columns makes the columns of a piece of an image: row c*taps+k has for each place what tap k sees of channel c. Element
// floor(offset) of the regular place and those after it are weighed by the offset's fraction, which f32 has exactly.
KERNEL(deform_columns, deform_args) {
	const window &w = a.w;
	i64 plane = volume(w.in);
	i32 height = w.in[1], width = w.in[2];
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 line = quotient(i, a.by_places, a.n), column = i - line * a.by_places.d, group = quotient(line, a.by_taps, a.n);
		i32 tap = (i32)(line - group * a.by_taps.d), o[3], k[3];
		coordinates((u32)(a.first + column), w.by_out, o);
		coordinates((u32)tap, w.by_kernel, k);
		i64 at = line * a.plane + a.first + column;
		f32 dy = stat(a.offset, a.type, 2 * line * a.plane + a.first + column), dx = stat(a.offset, a.type, (2 * line + 1) * a.plane + a.first + column);
		f32 down = round_down(dy), right = round_down(dx), fy = dy - down, fx = dx - right;
		bool near = down > -1e9f && down < 1e9f && right > -1e9f && right < 1e9f;
		i32 y = near ? o[1] * w.stride[1] - w.begin[1] + k[1] * w.dilation[1] + (i32)down : -2;
		i32 x = near ? o[2] * w.stride[2] - w.begin[2] + k[2] * w.dilation[2] + (i32)right : -2;
		f32 scale = a.mask ? stat(a.mask, a.type, at) : 1.0f;
		f32 weight[4] = {(1 - fy) * (1 - fx) * scale, (1 - fy) * fx * scale, fy * (1 - fx) * scale, fy * fx * scale};
		i32 place[4];
		UNROLL
		for (int j = 0; j < 4; j++) {
			i32 h = y + j / 2, v = x + j % 2;
			// What has no weight is not there, whatever lies at it.
			bool none = (j / 2 ? fy : 1 - fy) * (j % 2 ? fx : 1 - fx) == 0;
			place[j] = !none && h >= 0 && h < height && v >= 0 && v < width ? h * width + v : -1;
		}
		for (i32 c = 0; c < a.channels; c++) {
			i64 channel = group * a.channels + c, from = channel * plane;
			f32 sum = 0;
			UNROLL
			for (int j = 0; j < 4; j++) {
				if (place[j] >= 0) sum += stat(a.x, a.type, from + place[j]) * weight[j];
			}
			put_stat(a.y, a.type, (channel * a.by_taps.d + tap) * a.row + column, sum);
		}
	}
}

struct mark_args {
	const i64 *index;
	u32 *mark; // of each element of the output: 1 + the last element of the plane that names it, or 0
	u32 *bad;  // the largest complement of an element's number whose index is outside its plane
	i64 n;
	i64 in, own, full; // elements of a plane of the input, of that which indices count in, and of the output
	i32 own_rows, own_width, full_rows, full_width;
};

// unpool_mark finds which element of the input comes to each place of the output: of several the last.
KERNEL(unpool_mark, mark_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 plane = i / a.in, at = a.index[i] - plane * a.own;
		if (at < 0 || at >= a.own) {
			atomic_max(a.bad, ~(u32)i);
			continue;
		}
		i64 row = at / a.own_width, depth = row / a.own_rows;
		at = (depth * a.full_rows + row - depth * a.own_rows) * a.full_width + at - row * a.own_width;
		atomic_max(a.mark + plane * a.full + at, (u32)(i - plane * a.in) + 1);
	}
}

struct unpool_args {
	const void *x;
	const u32 *mark;
	void *y;
	i64 n;
	i64 in, full;
};

// unpool takes what was marked, for elements of any type by their size.
template <typename E> DEV inline void unpool(const unpool_args &a) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		u32 mark = a.mark[i];
		((E *)a.y)[i] = mark ? ((const E *)a.x)[i / a.full * a.in + mark - 1] : (E)0;
	}
}

KERNEL(unpool_1, unpool_args) { unpool<u8>(a); }
KERNEL(unpool_2, unpool_args) { unpool<u16>(a); }
KERNEL(unpool_4, unpool_args) { unpool<u32>(a); }
KERNEL(unpool_8, unpool_args) { unpool<u64>(a); }
