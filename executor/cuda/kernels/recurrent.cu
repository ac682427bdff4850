// The cells of RNN, GRU and LSTM: the rest of a step behind the products of its input and of its state with the
// weights. Operands are floats of one type but for LSTM's state c, which stays f32 between steps.
// executor/cpu/rnn.go has the formulas' source; gates lie in the operators' order.
#include "anyfloat.h"

// recurrent_args are of one step of one direction: batch sequences with hidden elements of state each.
struct recurrent_args {
	const void
	    *pre; // products of the inputs: gates*hidden for each sequence, pre_ld elements from one sequence to the next
	const void *rec;  // products of the states: gates*hidden for each sequence
	const void *bias; // gates*hidden for pre, and as many for rec; or null
	const void *peep; // LSTM: 3*hidden; or null
	const i32 *lens;  // of the sequences; or null
	void *h;          // state
	f32 *c;           // LSTM's other state
	void *side;       // GRU: the reset state
	void *y;          // the states' place in the output, y_ld elements from one sequence to the next; or null
	i64 n;            // batch*hidden
	i64 pre_ld, y_ld;
	divider hidden;
	i32 gates, time;
	u32 type;
	u32 couple; // LSTM: the forget gate is 1 less the input gate
	u32 linear; // GRU: the reset gate multiplies the product
	f32 clip;   // of what activations are applied to; 0: none
	u32 act[3];
	f32 alpha[3], beta[3];
};

// cell is the place of a thread's element: sequence b, element j of its state.
struct cell { i64 b, j; };

DEV inline cell cell_of(const recurrent_args &a, i64 i) {
	if (a.n >= 1ll << 31) return cell{i / a.hidden.d, i % a.hidden.d};
	u32 b = divide((u32)i, a.hidden);
	return cell{b, (u32)i - b * a.hidden.d};
}

DEV inline bool ended(const recurrent_args &a, const cell &at) { return a.lens && a.time >= a.lens[at.b]; }

// from_input and from_state are the two halves of a gate's operand.
DEV inline f32 from_input(const recurrent_args &a, const cell &at, i32 gate) {
	i64 place = (i64)gate * a.hidden.d + at.j;
	f32 x = stat(a.pre, a.type, at.b * a.pre_ld + place);
	return a.bias ? x + stat(a.bias, a.type, place) : x;
}
DEV inline f32 from_state(const recurrent_args &a, const cell &at, i32 gate) {
	i64 rows = (i64)a.gates * a.hidden.d, place = (i64)gate * a.hidden.d + at.j;
	f32 x = stat(a.rec, a.type, at.b * rows + place);
	return a.bias ? x + stat(a.bias, a.type, rows + place) : x;
}
DEV inline f32 gate_of(const recurrent_args &a, const cell &at, i32 gate) {
	return from_input(a, at, gate) + from_state(a, at, gate);
}

// activate clips x and applies activation k; functions have the numbers of cpu.RecurrentActivation.
DEV inline f32 activate(const recurrent_args &a, u32 k, f32 x) {
	if (a.clip != 0) x = x > a.clip ? a.clip : x < -a.clip ? -a.clip : x;
	f32 alpha = a.alpha[k], beta = a.beta[k];
	switch (a.act[k]) {
	case 0: return x > 0 ? x : x != x ? x : 0.0f;
	case 1: return tanh_of(x);
	case 2: return sigmoid(x);
	case 3: return fused(alpha, x, beta);
	case 4: return x < 0 ? alpha * x : x;
	case 5: return x < alpha ? 0.0f : x;
	case 6: return alpha * tanh_of(beta * x);
	case 7: x = fused(alpha, x, beta); return x < 0 ? 0.0f : x > 1 ? 1.0f : x;
	case 8: return x < 0 ? alpha * exp_minus_1(x) : x;
	case 9: return x / (1.0f + (x < 0 ? -x : x));
	}
	return softplus(x);
}

// put_state stores a new state, and 0 in the output of a sequence that has ended.
DEV inline void put_state(const recurrent_args &a, i64 i, const cell &at, bool live, f32 h) {
	if (live) put_stat(a.h, a.type, i, h);
	put_stat(a.y, a.type, at.b * a.y_ld + at.j, live ? h : 0.0f);
}

KERNEL(rnn_cell, recurrent_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		cell at = cell_of(a, i);
		bool live = !ended(a, at);
		put_state(a, i, at, live, live ? activate(a, 0, gate_of(a, at, 0)) : 0.0f);
	}
}

// peephole is what LSTM's state adds to a gate: P has the order i, o, f.
DEV inline f32 peephole(const recurrent_args &a, const cell &at, i32 gate, f32 c) {
	return a.peep ? stat(a.peep, a.type, (i64)gate * a.hidden.d + at.j) * c : 0.0f;
}

// lstm_cell computes C = f.C + i.c~ and H = o.h(C) of the gates i, o, f and c~.
KERNEL(lstm_cell, recurrent_args) {
	for (i64 n = global_thread(); n < a.n; n += global_threads()) {
		cell at = cell_of(a, n);
		if (ended(a, at)) {
			put_state(a, n, at, false, 0.0f);
			continue;
		}
		f32 c = a.c[n];
		f32 i = activate(a, 0, gate_of(a, at, 0) + peephole(a, at, 0, c));
		f32 f = a.couple ? 1.0f - i : activate(a, 0, gate_of(a, at, 2) + peephole(a, at, 2, c));
		c = f * c + i * activate(a, 1, gate_of(a, at, 3));
		f32 o = activate(a, 0, gate_of(a, at, 1) + peephole(a, at, 1, c));
		a.c[n] = c;
		put_state(a, n, at, true, o * activate(a, 2, c));
	}
}

// gru_reset computes r.H, with which the hidden gate's product is made, and 0 for a sequence that has ended.
KERNEL(gru_reset, recurrent_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		cell at = cell_of(a, i);
		put_stat(a.side, a.type, i, ended(a, at) ? 0.0f : activate(a, 0, gate_of(a, at, 1)) * stat(a.h, a.type, i));
	}
}

// gru_cell computes H = (1-z).h~ + z.H of the gates z, r and h~; r is in the product of h~ already where it is not
// linear.
KERNEL(gru_cell, recurrent_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		cell at = cell_of(a, i);
		if (ended(a, at)) {
			put_state(a, i, at, false, 0.0f);
			continue;
		}
		f32 r = a.linear ? activate(a, 0, gate_of(a, at, 1)) : 1.0f;
		f32 z = activate(a, 0, gate_of(a, at, 0));
		f32 fresh = activate(a, 1, from_input(a, at, 2) + r * from_state(a, at, 2));
		put_state(a, i, at, true, (1.0f - z) * fresh + z * stat(a.h, a.type, i));
	}
}

struct state_args {
	const void *from; // null: zeros
	void *to;
	i64 n, from_ld, to_ld; // elements, and those from one sequence to the next
	divider hidden;
	u32 from_type, to_type;
};

// state_copy copies the states of all sequences, between an operand and workspace.
KERNEL(state_copy, state_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 b = a.n < 1ll << 31 ? (i64)divide((u32)i, a.hidden) : i / a.hidden.d, j = i - b * a.hidden.d;
		put_stat(a.to, a.to_type, b * a.to_ld + j, a.from ? stat(a.from, a.from_type, b * a.from_ld + j) : 0.0f);
	}
}
