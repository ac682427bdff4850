// Package report prints plans and graphs for people and scripts: tables laid out as ONNX Runtime
// prints them, JSON with stable fields, CSV and Markdown.
//
// Byte counts in JSON are fields named bytes or ending in _bytes, for example arena_bytes; names of
// formulas end in _expr; an unknown count is null. Tables print sizes as KiB, MiB and GiB.
package report
