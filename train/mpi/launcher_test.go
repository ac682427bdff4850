package mpi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/train/mpi"
)

// environ reads variables written one to a word.
func environ(words string) func(string) string {
	return func(name string) string {
		for w := range strings.FieldsSeq(words) {
			if n, value, _ := strings.Cut(w, "="); n == name {
				return value
			}
		}
		return ""
	}
}

// batch is what a script of sbatch -n 2 sees, in Slurm 22.05.
const batch = "SLURM_JOB_ID=1 SLURM_LOCALID=0 SLURM_NNODES=1 SLURM_NODEID=0 SLURM_NPROCS=2 SLURM_NTASKS=2 " +
	"SLURM_PROCID=0 SLURM_TASKS_PER_NODE=2 SLURM_TASK_PID=2195 "

// step is what the second task of srun -n 2 sees in it.
const step = batch + "SLURM_STEPID=0 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=vm SLURM_STEP_NUM_NODES=1 " +
	"SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2 "

// second has the variables of task 1 in place of those of task 0.
func second(env string) string {
	return strings.NewReplacer("SLURM_LOCALID=0", "SLURM_LOCALID=1", "SLURM_PROCID=0", "SLURM_PROCID=1").Replace(env)
}

// TestFind reads environments as launchers have set them.
func TestFind(t *testing.T) {
	const openmpi = "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=1 " +
		"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_RANK=1 PMIX_NAMESPACE=917700609 "
	const hydra = "MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1 PMI_FD=8 PMI_RANK=1 PMI_SIZE=2 "
	const hydraStep = batch + "SLURM_STEPID=3 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=1 " +
		"SLURM_STEP_TASKS_PER_NODE=1 " // Hydra starts its proxies by srun
	ofOpenMPI := mpi.Launch{Launcher: "mpirun of Open MPI", Kind: mpi.OpenMPI, Rank: 1, Size: 2, LocalRank: 1,
		LocalSize: 2}
	ofMPICH := mpi.Launch{Launcher: "mpirun of MPICH", Kind: mpi.MPICH, Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2}
	alone := mpi.Launch{Size: 1, LocalSize: 1}
	for _, c := range []struct {
		name, env string
		want      mpi.Launch
	}{
		{"nothing", "", alone},
		{"Open MPI 4.1", openmpi, ofOpenMPI},
		{"Open MPI in a script of Slurm", batch + openmpi, ofOpenMPI},
		{"Open MPI on a second machine, where srun has started its daemon", second(step) + strings.NewReplacer(
			"LOCAL_RANK=1", "LOCAL_RANK=0", "RANK=1", "RANK=3", "WORLD_SIZE=2", "WORLD_SIZE=5").Replace(openmpi),
			mpi.Launch{Launcher: "mpirun of Open MPI", Kind: mpi.OpenMPI, Rank: 3, Size: 5, LocalSize: 2}},
		{"MPICH 4.0", hydra, ofMPICH},
		{"MPICH in a script of Slurm", hydraStep + hydra, ofMPICH},
		{"a PMI that numbers no local ranks", "PMI_RANK=1 PMI_SIZE=3",
			mpi.Launch{Launcher: "mpirun of MPICH", Kind: mpi.MPICH, Rank: 1, Size: 3, LocalSize: 1}},
		{"a script of Slurm", batch, alone},
		{"one task of srun", batch + "SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1 SLURM_STEPID=2", alone},
		{"srun --mpi=pmi2", second(step) + "PMI_FD=13 PMI_JOBID=1.1 PMI_RANK=1 PMI_SIZE=2",
			mpi.Launch{Launcher: "srun", Kind: mpi.MPICH, Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2}},
		{"srun --mpi=pmix", second(step) + "PMIX_RANK=1 PMIX_NAMESPACE=slurm.pmix.1.0",
			mpi.Launch{Launcher: "srun", Kind: mpi.Either, Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2}},
		{"the last of three machines", "SLURM_STEP_NUM_TASKS=5 SLURM_STEP_TASKS_PER_NODE=2(x2),1 SLURM_PROCID=4 " +
			"SLURM_LOCALID=0 SLURM_NODEID=2 PMIX_RANK=4",
			mpi.Launch{Launcher: "srun", Kind: mpi.Either, Rank: 4, Size: 5, LocalSize: 1}},
		{"torchrun with one process", "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0", alone},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := mpi.Find(environ(c.env))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// TestFindErrors: environments that make no sense, or no ranks that MPI can join.
func TestFindErrors(t *testing.T) {
	for _, c := range []struct{ name, env, want string }{
		{"srun without MPI", second(step), "srun has started 2 tasks without a way to find each other"},
		{"torchrun", "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=a", "RANK=1 and WORLD_SIZE=4 are those of " +
			"torchrun, which is not MPI: start the ranks by mpirun -n 4"},
		{"PMIx alone", "PMIX_RANK=1 PMIX_NAMESPACE=x", "does not say how many there are"},
		{"no number", "OMPI_COMM_WORLD_RANK=one OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0",
			"the environment that mpirun of Open MPI has set: OMPI_COMM_WORLD_RANK=one: wanted a number of at least 0"},
		{"no size", "PMI_RANK=0", "PMI_SIZE=: wanted a number of at least 1"},
		{"beyond the size", "PMI_RANK=2 PMI_SIZE=2", "rank 2 of 2, and 0 of 1 on this machine, cannot be"},
		{"no such machine", "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2 SLURM_PROCID=0 SLURM_LOCALID=0 " +
			"SLURM_NODEID=1 PMI_FD=3", "SLURM_STEP_TASKS_PER_NODE=2 does not say how many tasks node 1 has"},
		{"half a list", "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2(x SLURM_PROCID=0 SLURM_LOCALID=0 PMI_FD=3",
			"SLURM_STEP_TASKS_PER_NODE=2(x does not say"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := mpi.Find(environ(c.env))
			require.ErrorContains(t, err, c.want)
		})
	}
}
