package data

import (
	"context"

	"memopt/executor"
	"memopt/graph"
)

// Unknown is a dim of an input that the data decides. Tokens decide none.
const Unknown = -1

// Input is a data input of the step.
type Input struct {
	Name      string
	DType     graph.DType
	Shape     []int // of one sample if Batched, without the batch dim; else of the whole input
	Batched   bool  // the first dim of the input counts samples
	Classes   int64 // elements must lie in [0, Classes) or equal Ignore; 0: not known
	Ignore    int64 // a label that does not count, such as -100; only where HasIgnore
	HasIgnore bool
	Shifts    bool // labels of which the model leaves out each row's first: it shifts them itself
}

// Source is a set of samples.
type Source interface {
	// Inputs returns the inputs with the dims that were Unknown.
	Inputs() []Input
	// Samples is the number of samples of an epoch, at least 1.
	Samples() int64
	// Tokens is how many tokens a sample has; 0 where samples are not made of tokens.
	Tokens() int64
	// Fill writes sample i as a row of the tensors of a batch, which are in the order of Inputs.
	// Inputs that are not batched are written with row 0. Sample k of epoch e is e*Samples()+k:
	// only samples that are drawn at random differ between epochs. It allocates nothing, and may be
	// called from several goroutines for different rows.
	Fill(i int64, row int, batch []*executor.Tensor) error
	// Check reads every element that must lie in a range, on all processors. The error names the
	// first one that does not, with its file and position.
	Check(ctx context.Context) error
	// Identity returns a hash, in hexadecimal digits, that tells data from other data: the sha256 of
	// how it is cut into samples, and of each file's name without its folder, its size and its
	// contents. Of files beyond 32 MiB only the ends and samples between them are read; an edit
	// elsewhere that keeps the size is not noticed.
	Identity() (string, error)
	// Close ends the mappings. No Fill may be running.
	Close() error
}

// Options say how files are to be read. The zero value finds that out.
type Options struct {
	// Format is "" or "auto", which goes by the names of the files, or one of Formats.
	Format string
	// TokenType is the type of tokens: uint8, uint16, uint32, int32 or int64. "" or "auto" is what a
	// header says, uint8 in .txt files, and else uint16.
	TokenType string
	// Blocks says where blocks of tokens start: "disjoint" (""), one after the other, or "random",
	// anywhere, drawn by Seed.
	Blocks string
	// Labels says which tokens are the labels of tokens t to t+T-1: "next", those from t+1 on; "same",
	// which models want that shift labels themselves, as those of Hugging Face do; "" or "auto": by
	// Input.Shifts.
	Labels string
	// Record describes the fields of a record of raw bytes: see parseRecord.
	Record string
	// Names has, by input, the name of its array or field, or for tokens what it is to hold: one of
	// Roles. Inputs that are missing here go by their own names.
	Names map[string]string
	// Seed draws the starts of random blocks.
	Seed uint64
}

// Formats lists the values of Options.Format, but for auto.
func Formats() []string { return []string{formatTokens, formatNpy, formatONNX, formatRecords} }

const (
	formatAuto    = "auto"
	formatTokens  = "tokens"
	formatNpy     = "npy"
	formatONNX    = "onnx"
	formatRecords = "records"
)
