// Package report turns plans and graphs into what people and scripts read: tables laid out as
// ONNX Runtime prints them, JSON with stable fields, CSV and Markdown.
//
// Byte counts in JSON are fields named bytes or ending in _bytes, names of formulas end in _expr;
// an unknown count is null. Tables print sizes as KiB, MiB and GiB.
package report
