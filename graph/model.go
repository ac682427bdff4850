package graph

// Model is one ONNX file.
type Model struct {
	Path            string // where it was read from, for messages; "" if made here
	IRVersion       int64
	ProducerName    string
	ProducerVersion string
	Domain          string
	ModelVersion    int64
	Doc             string
	Opsets          []Opset
	Metadata        []Property
	Graph           *Graph
	Functions       []*Function
	Configurations  []DeviceConfiguration // of devices, which annotations of nodes refer to
	Extra           []byte                // wire fields besides these
}

// Opset is one imported operator set. The ONNX domain is "" or "ai.onnx".
type Opset struct {
	Domain  string
	Version int64
	Extra   []byte
}

// Function is a model-local function: a named body that nodes call as an
// operator.
type Function struct {
	Name, Domain, Overload string
	Doc                    string
	Inputs, Outputs        []ValueID // in Body
	AttrNames              []string  // attributes that every call must give
	AttrDefaults           []Attr    // attributes with defaults
	Body                   *Graph
	Opsets                 []Opset
	Wire                   []byte // its encoded form, nil once changed
}

// CanonicalDomain maps the two spellings of the ONNX domain to "".
func CanonicalDomain(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// OpsetVersion returns the version that a list of imports gives a domain, or 0. If a domain occurs
// several times, the last counts, as for ONNX's checker and for ONNX Runtime.
func OpsetVersion(opsets []Opset, domain string) int64 {
	domain = CanonicalDomain(domain)
	for i := len(opsets) - 1; i >= 0; i-- {
		if CanonicalDomain(opsets[i].Domain) == domain {
			return opsets[i].Version
		}
	}
	return 0
}

// OpsetVersion returns the version that the model imports of a domain, or 0.
func (m *Model) OpsetVersion(domain string) int64 { return OpsetVersion(m.Opsets, domain) }

// Meta returns the metadata entry with the given key.
func (m *Model) Meta(key string) (string, bool) {
	for _, p := range m.Metadata {
		if p.Key == key {
			return p.Value, true
		}
	}
	return "", false
}

// SetMeta sets a metadata entry; a new key goes to the end of the list.
func (m *Model) SetMeta(key, value string) {
	for i := range m.Metadata {
		if m.Metadata[i].Key == key {
			m.Metadata[i].Value = value
			return
		}
	}
	m.Metadata = append(m.Metadata, Property{Key: key, Value: value})
}
