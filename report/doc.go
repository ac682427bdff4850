// Package report turns plans and graphs into what people and scripts read: tables laid out as
// ONNX Runtime prints them, JSON with stable fields, CSV and Markdown.
//
// Byte counts in JSON are fields named bytes or ending in _bytes, formulas end
// in _expr; a count that nobody knows is null. Tables print sizes as KiB, MiB
// and GiB.
package report
