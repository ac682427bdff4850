package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"memopt/internal/fileio"
)

// Kubernetes writes an Indexed Job for a grid.
type Kubernetes struct {
	*Runner
	AtOnce int    // most pods that run at a time; 0 means all
	Grace  int    // seconds that a pod has for its checkpoint
	Image  string // that has memopt
	Claim  string // the PersistentVolumeClaim of the current folder
}

// podAttempts is how often a point is tried again whose pod was killed, as where memory is short.
const podAttempts = 3

// Write writes the manifest, as JSON, which kubectl reads too, and the grid, which pods read. Their
// working folder is this one, on the claim's volume, so that the results must lie below it.
func (k *Kubernetes) Write() (path string, err error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	folder, err := filepath.Abs(k.Folder.Path)
	if err != nil {
		return "", err
	}
	if below, err := filepath.Rel(here, folder); err != nil || strings.HasPrefix(below, "..") {
		return "", fmt.Errorf("-o %s: lies outside of %s, and pods see only that; name a folder below it", folder, here)
	}
	if k.Image == "" || k.Claim == "" {
		return "", errors.New("--on kubernetes: wanted --image, which has memopt, and --claim, the " +
			"PersistentVolumeClaim of this folder's volume")
	}
	if err := k.Folder.Make(); err != nil {
		return "", err
	}
	if err := fileio.WriteFile(filepath.Join(folder, gridName), k.Grid.Data); err != nil {
		return "", err
	}
	data, err := json.MarshalIndent(k.manifest(folder, here), "", " ")
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "kubernetes.json")
	return path, fileio.WriteFile(path, append(data, '\n'))
}

// fields are an object of the manifest.
type fields map[string]any

// manifest is the Indexed Job. An exit code that is a result, or that a second try cannot improve,
// fails its index at once; a pod that was stopped with its checkpoint saved, or evicted, does not
// count as an attempt.
func (k *Kubernetes) manifest(folder, here string) fields {
	n := len(k.Grid.Points)
	parallel := n
	if k.AtOnce > 0 {
		parallel = min(n, k.AtOnce)
	}
	final := []int{codeInfeasible, codeDiffers, codeAbove, codeInvalid, codeEarly}
	if !k.Retry { // a failed point has its result, which a second pod would only read
		final = []int{1, 2, codeInfeasible, codeDiffers, codeAbove, codeInvalid, 7, codeEarly}
	}
	command := []string{"memopt", "sweep", filepath.Join(folder, gridName), "-o", folder}
	if k.Retry {
		command = append(command, "--retry")
	}
	return fields{"apiVersion": "batch/v1", "kind": "Job", "metadata": fields{"generateName": "memopt-sweep-"},
		"spec": fields{"completionMode": "Indexed", "completions": n, "parallelism": parallel,
			"backoffLimitPerIndex": podAttempts,
			"podFailurePolicy": fields{"rules": []fields{
				onCodes("FailIndex", final...), onCodes("Ignore", codeSaved, 130, 138, 143),
				{"action": "Ignore", "onPodConditions": []fields{{"type": "DisruptionTarget", "status": "True"}}},
			}},
			"template": fields{"spec": fields{"restartPolicy": "Never", "terminationGracePeriodSeconds": k.Grace,
				"containers": []fields{{"name": "memopt", "image": k.Image, "command": command,
					"workingDir": here, "volumeMounts": []fields{{"name": "work", "mountPath": here}}}},
				"volumes": []fields{{"name": "work", "persistentVolumeClaim": fields{"claimName": k.Claim}}}}}}}
}

// onCodes is a rule for exit codes.
func onCodes(action string, codes ...int) fields {
	return fields{"action": action,
		"onExitCodes": fields{"containerName": "memopt", "operator": "In", "values": codes}}
}
