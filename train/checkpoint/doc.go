// Package checkpoint keeps the states of a training job in its folder, so that the job can go on
// from there, bit for bit, whenever it was stopped or killed.
//
// A job's folder has a file "lock", which one process at a time holds, and a folder "checkpoints" with
// a folder "step-N" for each checkpoint:
//
//	weights.safetensors    the parameters, by the names of the model's initializers
//	optimizer.safetensors  the other states: moments, running statistics and so on
//	checkpoint.json        the manifest: all else that the job goes on from, and hashes of the files
//
// A checkpoint is written under a name of its own, flushed to the disk and renamed: a folder called
// step-N is complete. Its manifest has the SHA-256 of the other files, which is compared when it is
// loaded.
package checkpoint
