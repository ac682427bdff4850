// Package events writes the logs of a training job: metrics.jsonl, TensorBoard's event files, and
// the report at its end.
//
// A file grows by whole records, each written by one call, so that a reader never sees half of one
// and a job that is killed leaves at most its last one torn. If the disk is full, the job goes on:
// records wait, up to maxPending bytes, and are written once there is space again; the fault is
// returned once, and again only after writes have worked in between.
//
// JSON has no numbers that are not finite. They are written as strings, "NaN", "Infinity" and
// "-Infinity", as in the JSON form of protocol buffers: a loss that is no number is news, and null
// would mean that it was not measured.
package events
