package cuda

// LowerColumnBytes sets the bound on columns until restore is called.
func LowerColumnBytes(n int) (restore func()) {
	old := convColumnBytes
	convColumnBytes = n
	return func() { convColumnBytes = old }
}
