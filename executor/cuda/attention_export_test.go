package cuda

// LowerAttentionScores sets the bounds on the parts of an attention until restore is called.
func LowerAttentionScores(bytes, queries int) (restore func()) {
	oldBytes, oldQueries := attentionScores, attentionQueries
	attentionScores, attentionQueries = bytes, queries
	return func() { attentionScores, attentionQueries = oldBytes, oldQueries }
}
