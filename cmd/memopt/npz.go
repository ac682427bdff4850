package main

import "memopt/executor/verify"

func saveNPZ(path string, r *verify.Run) error { return nil }
