// What attention does to scores between its two products: softcap, masks, softmax. attention_TYPE.cu defines T.
#include "rows.h"
#include "bounds.h"

// attention_args: rows of scores of neighbouring queries of neighbouring heads of neighbouring entries of the batch.
struct attention_args {
	void *x;             // the scores, which the weights of values replace
	const void *mask;    // null: none
	const i64 *lengths;  // keys of each entry; null: all
	void *show;          // output of scores, or null
	i64 rows, n;         // n: keys
	i64 first_entry, first_head, first_query;
	i64 queries, heads;         // of which x has rows
	i64 all_queries, all_heads; // of the operator
	i64 mask_step[4], mask_cols;
	i64 past;
	f32 softcap; // 0: none
	u32 admit;   // the mask's elements are bools, not numbers to be added
	u32 causal;
	u32 stage; // which scores are shown: 0 products, 1 after softcap, 2 after masks, 3 weights
	u32 wide;
};

// query is a row of scores and what of the other operands belongs to it.
struct query {
	T *x, *show;
	i64 mask;
	i64 visible; // keys that the query may look at, from the first on
};

DEV inline query query_of(const attention_args &a, i64 r) {
	i64 block = r / a.queries, i = a.first_query + (r - block * a.queries);
	i64 entry = block / a.heads, head = a.first_head + (block - entry * a.heads);
	entry += a.first_entry;
	query q;
	q.x = (T *)a.x + r * a.n;
	q.show = a.show ? (T *)a.show + ((entry * a.all_heads + head) * a.all_queries + i) * a.n : 0;
	q.mask = entry * a.mask_step[0] + head * a.mask_step[1] + i * a.mask_step[2];
	q.visible = a.n;
	i64 length = a.lengths ? a.lengths[entry] : a.n;
	if (a.lengths && length < q.visible) q.visible = length;
	if (a.causal) {
		i64 before = a.past;
		if (a.lengths && a.past == 0) before = length - a.all_queries;
		if (before + i + 1 < q.visible) q.visible = before + i + 1;
	}
	return q;
}

// score returns score j of a query, after masks; it shows what is asked for.
DEV inline f32 score(const attention_args &a, const query &q, i64 j, f32 x, bool show) {
	show = show && q.show;
	if (show && a.stage == 0) q.show[j] = store<T>(x);
	if (a.softcap != 0) x = a.softcap * tanh_of(x / a.softcap);
	if (show && a.stage == 1) q.show[j] = store<T>(x);
	if (a.mask) {
		i64 at = q.mask + j * a.mask_step[3];
		if (j >= a.mask_cols) x = -F32_INF;
		else if (!a.admit) x += load(((const T *)a.mask)[at]);
		else if (!((const u8 *)a.mask)[at]) x = -F32_INF;
	}
	if (j >= q.visible) x = -F32_INF;
	if (show && a.stage == 2) q.show[j] = store<T>(x);
	return x;
}

// A query that may look at no key gets weights 0.
template <int W> DEV inline void attention_held(const attention_args &a, i64 r, f32 *partial) {
	const query q = query_of(a, r);
	const u32 n = (u32)a.n;
	held<T, W> h;
	h.read(q.x, n, -F32_INF);
UNROLL
	for (int k = 0; k < HELD; k++) {
		u32 j = held<T, W>::at(k / W) + k % W;
		if (j < n) h.v[k] = score(a, q, j, h.v[k], true);
	}
	f32 m = team_max(h.max(), partial), s = 0;
	if (m == -F32_INF) m = 0;
UNROLL
	for (int k = 0; k < HELD; k++) s += h.v[k] = exponential(h.v[k] - m);
	s = team_sum(s, partial);
	s = s == 0 ? 0 : 1.0f / s;
UNROLL
	for (int k = 0; k < HELD; k++) h.v[k] *= s;
	h.write(q.x, n);
	if (q.show && a.stage == 3) h.write(q.show, n);
}

// attention_long reads a row twice, and masks it in both passes.
template <int W> DEV inline void attention_long(const attention_args &a, i64 r, f32 *partial) {
	const query q = query_of(a, r);
	const i64 first = (i64)thread_x() * W, step = (i64)block_size() * W;
	log_sum l = {-F32_INF, 0};
	for (i64 i = first; i < a.n; i += step) {
		pack<T, W> p = *(const pack<T, W> *)(q.x + i);
UNROLL
		for (int j = 0; j < W; j++) log_add(l, score(a, q, i + j, load(p.v[j]), true));
	}
	f32 m = team_max(l.m, partial);
	f32 s = team_sum(l.s == 0 ? 0 : l.s * exp_below(l.m, m), partial);
	if (m == F32_INF) s = F32_NAN;
	if (m == -F32_INF) m = 0;
	s = s == 0 ? 0 : 1.0f / s;
	for (i64 i = first; i < a.n; i += step) {
		pack<T, W> p = *(const pack<T, W> *)(q.x + i);
UNROLL
		for (int j = 0; j < W; j++) p.v[j] = store<T>(exponential(score(a, q, i + j, load(p.v[j]), false) - m) * s);
		*(pack<T, W> *)(q.x + i) = p;
		if (q.show && a.stage == 3) *(pack<T, W> *)(q.show + i) = p;
	}
}

template <int W> DEV inline void attention_rows(const attention_args &a, f32 *partial) {
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		if (a.n <= HELD * block_size()) attention_held<W>(a, r, partial);
		else attention_long<W>(a, r, partial);
	}
}
THREADS_AT_MOST(TEAM_THREADS, JOIN(attention, T), attention_args)
KERNEL(JOIN(attention, T), attention_args) {
	SHARED(f32, partial, WARP);
	if (a.wide) attention_rows<vector<T>::width>(a, partial);
	else attention_rows<1>(a, partial);
}
