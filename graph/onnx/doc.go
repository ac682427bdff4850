// Package onnx reads and writes ONNX files: bytes to [graph.Model] and back, without loss.
//
// # Reading
//
// An ONNX file is one protocol buffer message, ModelProto, defined by onnx.proto of the ONNX
// project (IR versions 3 to 13 are understood). [Open] maps the file into memory and [Decode] walks
// its wire format once: it builds nodes, values, types and small attributes, and notes where
// tensors lie. Contents of tensors are not looked at until a [graph.Source] is asked for them, so a
// model of ten gigabytes opens as fast as its structure alone. Tensors in files of their own
// ("external data") are mapped when they are asked for; their paths may not leave the model's
// folder.
//
// # What keeps a file whole
//
// Attributes, tensors, declarations of values and functions keep their encoded form (Wire) and are
// written as they were. Models, graphs, nodes, operator set imports and metadata entries are
// written from their Go fields; bytes without a Go field go into Extra as they stand in the file:
// unknown fields, fields of no interest here, and scalar fields that are present with the value
// that their absence means, since ONNX's proto2 schema tells the two apart. Extra is written before
// the fields, and protocol buffers let the last occurrence of a scalar win, so an edited field
// beats its empty occurrence in Extra. A message field that must occur once and occurs twice is
// merged, as the protocol buffer rules say.
//
// A graph inside an attribute is always written from its Go form, so that edits
// in subgraphs reach the file; the attribute's other fields are kept.
//
// # Faults
//
// A [*FormatError] says that the file is at fault; every other error is one of
// input or output. Memory that decoding takes is bounded by a small multiple of
// the input's size: counts in the file are never trusted. Graphs nest at most
// [MaxDepth] deep.
package onnx
