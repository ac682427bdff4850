package data

import (
	"context"

	"memopt/executor"
	"memopt/graph"
)

// Unknown is a dim of an input that the data decides. Tokens decide no dims.
const Unknown = -1

// Input is a data input of the step.
type Input struct {
	Name      string
	DType     graph.DType
	Shape     []int // of one sample if Batched, without the batch dim; else of the whole input
	Batched   bool  // the first dim of the input counts samples
	Ragged    bool  // the last dim is the most that batches have: see Ragged
	Whole     bool  // the caller knows that the first dim counts something else, however many rows there are
	Classes   int64 // elements must lie in [0, Classes) or equal Ignore; 0 if the range is not known
	Ignore    int64 // a label that does not count, such as -100; only where HasIgnore
	HasIgnore bool
	Shifts    bool // labels whose first in each row the model leaves out: it shifts them itself
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
	// only samples that are drawn at random differ between epochs. It does not allocate, and may be
	// called from several goroutines for different rows.
	Fill(i int64, row int, batch []*executor.Tensor) error
	// Check reads every element that must lie in a range, on all processors. The error names the
	// first one that does not, with its file and position.
	Check(ctx context.Context) error
	// Identity returns a hash, in hexadecimal digits, that tells data from other data: the sha256 of
	// the way that it is cut into samples, and of each file's name without its folder, its size and
	// its contents. In files beyond 32 MiB, it reads only the ends and samples between them; an edit
	// elsewhere that keeps the size is not noticed.
	Identity() (string, error)
	// Close ends the mappings. No Fill may be running.
	Close() error
}

// Options say how files are to be read. The zero value finds that out.
type Options struct {
	// Format is "" or "auto", which goes by the names of the files, or one of Formats.
	Format string
	// TokenType is the type of tokens: uint8, uint16, uint32, int32 or int64. "" or "auto" means the
	// type in the file's header, otherwise uint8 for .txt files and uint16 for others.
	TokenType string
	// Blocks says where blocks of tokens start: "disjoint" (""), one after the other, or "random",
	// anywhere, drawn by Seed. "documents:50256" makes a sample of each document, which a token ends, 50256 for
	// example; "documents" of each line of a text. Longer ones than the inputs are cut. The source is Ragged then.
	Blocks string
	// Labels tells which tokens are the labels of tokens t to t+T-1. "next" means those from t+1 on;
	// "same" is for models that shift labels themselves, for example those of Hugging Face; "" or
	// "auto" decides by Input.Shifts.
	Labels string
	// Record describes the fields of a record of raw bytes: see parseRecord.
	Record string
	// Names has, by input, the name of its array or field, or its role for tokens: one of Roles.
	// Inputs that are missing here go by their own names.
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
