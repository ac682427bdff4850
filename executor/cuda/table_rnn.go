package cuda

import "memopt/graph/op"

// recurrentRows: recurrent operators. The host reads the sequences' lengths and reports those that
// are too long.
var recurrentRows = []Row{
	{Kind: op.GRU, New: recurrent("gru_cell", 3), HostInputs: []int{4}},
	{Kind: op.LSTM, New: recurrent("lstm_cell", 4), HostInputs: []int{4}},
	{Kind: op.RNN, New: recurrent("rnn_cell", 1), HostInputs: []int{4}},
}
