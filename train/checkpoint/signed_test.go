package checkpoint

import "encoding/json"

// Signed is the text of a manifest with its hash.
func Signed(text []byte) []byte {
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		panic(err)
	}
	text, err := m.encode()
	if err != nil {
		panic(err)
	}
	return text
}
