//go:build !linux || !amd64 || nodl

package dnnl

import "errors"

// FastProducts reports whether there is a library.
func FastProducts() bool { return false }

// Sgemm needs a library.
func Sgemm(
	transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32,
	c []float32, ldc int,
) {
	panic("dnnl: this build opens no library")
}

// Conv is a convolution of a library; this build has no library.
type Conv struct{}

// openLibrary finds no library in this build.
func openLibrary() (string, error) { return "", nil }

// New makes no Conv in this build.
func New(Problem, int) (*Conv, error) { return nil, errors.New("this build opens no library") }

// Workspace is the number of elements of workspace.
func (*Conv) Workspace() int { return 0 }

// Rounds is the number of rounds.
func (*Conv) Rounds() int { return 0 }

// Packs is the number of copies of a round.
func (*Conv) Packs(int) int { return 0 }

// Pieces is the number of pieces of a round.
func (*Conv) Pieces(int) int { return 0 }

// Pack makes a copy.
func (*Conv) Pack(round, i, slot int, a, b, work []float32) {}

// Piece computes a piece.
func (*Conv) Piece(round, i, slot int, out, work []float32) {}
