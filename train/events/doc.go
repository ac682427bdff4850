// Package events writes what a training job tells of itself: metrics.jsonl, TensorBoard's event
// files, and the report at its end.
//
// A file grows by whole records, each written by one call, so that a reader never sees half of one
// and a job that is killed leaves at most its last one torn. Where the disk is full the job goes on:
// what could not be written waits, up to maxPending bytes, and is written when there is room again;
// the fault is returned once, and again only after writes have worked in between.
//
// JSON has no numbers that are not finite. They are written as strings, "NaN", "Infinity" and
// "-Infinity", as in the JSON form of protocol buffers: a loss that is no number is news, and null
// would say that nobody measured it.
package events
