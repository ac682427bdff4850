package sweep_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	strict "sigs.k8s.io/json"

	"memopt/answers/sweep"
)

// TestKubernetes: the manifest has the form of batch/v1 as its authors publish it, with no field that
// is unknown or stands there twice, and says what it is meant to say.
func TestKubernetes(t *testing.T) {
	t.Chdir(t.TempDir())
	g, err := sweep.Parse([]byte(`{"verb": "plan", "models": "a", "flags": {"x": [1, 2, 3, 4, 5]}}`), "g", anyVerb{})
	require.NoError(t, err)
	k := &sweep.Kubernetes{AtOnce: 2, Grace: 90, Image: "registry/memopt:1", Claim: "work",
		Runner: &sweep.Runner{Grid: g, Folder: &sweep.Folder{Path: "out"}, Hasher: &sweep.Hasher{Verbs: anyVerb{}}}}
	path, err := k.Write()
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var job batch.Job
	wrong, err := strict.UnmarshalStrict(data, &job)
	require.NoError(t, err)
	require.Empty(t, wrong)

	require.Equal(t, "batch/v1", job.APIVersion)
	require.Equal(t, "Job", job.Kind)
	require.Equal(t, batch.IndexedCompletion, *job.Spec.CompletionMode)
	require.EqualValues(t, 5, *job.Spec.Completions)
	require.EqualValues(t, 2, *job.Spec.Parallelism)
	require.Positive(t, *job.Spec.BackoffLimitPerIndex)
	pod := job.Spec.Template.Spec
	require.Equal(t, core.RestartPolicyNever, pod.RestartPolicy) // as a podFailurePolicy demands
	require.EqualValues(t, 90, *pod.TerminationGracePeriodSeconds)
	require.Equal(t, pod.Containers[0].WorkingDir, pod.Containers[0].VolumeMounts[0].MountPath)
	require.Equal(t, pod.Volumes[0].Name, pod.Containers[0].VolumeMounts[0].Name)
	require.FileExists(t, pod.Containers[0].Command[2])

	// The API's own rules: values rise, 0 is not among them, and there are at most 255 in 20 rules.
	does := map[int32]batch.PodFailurePolicyAction{}
	for _, rule := range job.Spec.PodFailurePolicy.Rules {
		if rule.OnExitCodes == nil {
			require.Equal(t, core.DisruptionTarget, rule.OnPodConditions[0].Type)
			continue
		}
		require.Equal(t, pod.Containers[0].Name, *rule.OnExitCodes.ContainerName)
		require.True(t, slices.IsSorted(rule.OnExitCodes.Values))
		for _, code := range rule.OnExitCodes.Values {
			require.NotZero(t, code)
			require.NotContains(t, does, code)
			does[code] = rule.Action
		}
	}
	require.Equal(t, batch.PodFailurePolicyActionFailIndex, does[3], "what does not fit is not tried again")
	require.Equal(t, batch.PodFailurePolicyActionIgnore, does[9], "a saved checkpoint is gone on with")
	require.NotContains(t, does, int32(137), "a pod that is killed is tried again")

	k.Folder.Path = filepath.Join("..", "elsewhere")
	_, err = k.Write()
	require.ErrorContains(t, err, "lies outside of")
	k.Folder.Path, k.Claim = "out", ""
	_, err = k.Write()
	require.ErrorContains(t, err, "--claim")
}
