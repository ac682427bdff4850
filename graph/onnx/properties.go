package onnx

import (
	"bytes"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
)

// infoMetadata is ValueInfoProto.metadata_props.
const infoMetadata protowire.Number = 4

// Properties returns the metadata of one of a file's values whose keys begin with prefix; nil if it
// has no such entry, or if the declaration was made here. Exporters note a value's role in their
// program there: PyTorch's writes, for example, PARAMETER under the key
// "pkg.torch.export.graph_signature.InputSpec.kind". The error is one of the wire format.
func Properties(d *graph.Decl, prefix string) (list []graph.Property, err error) {
	if d.Wire == nil || !bytes.Contains(d.Wire, []byte(prefix)) {
		return nil, nil
	}
	r := reader{rest: d.Wire, pos: -1}
	err = r.each(func(f *field) error {
		if f.num != infoMetadata {
			return nil
		}
		p, err := entry(f)
		if err == nil && strings.HasPrefix(p.Key, prefix) {
			list = append(list, p)
		}
		return err
	})
	return list, err
}
