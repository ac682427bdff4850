// Resized axes: where elements of the output come from.
#ifndef MEMOPT_RESIZE_H
#define MEMOPT_RESIZE_H
#include "window.h"

#define RESIZED_DIMS 6

// resized is a dim of the output. Where it is resized, its element o comes from entries start[o]..start[o+1]-1 of index
// and weight, which are offsets of tables of 4 bytes an entry; from none where it lies outside the input.
struct resized {
	i64 stride; // of the input
	divider by;
	i32 same;
	i32 start, index, weight;
};

struct resize_args {
	const void *x;
	const i32 *table;
	void *y;
	i64 n;
	u64 fill; // an element of the output outside the input, as bits; f32 where elements are computed
	i32 dims; // the innermost first
	resized dim[RESIZED_DIMS];
};
#endif
