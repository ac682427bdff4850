package mpi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind is a kind of MPI library; processes of a job must all use that of their launcher.
type Kind uint8

const (
	// None is the kind of a process without a launcher.
	None Kind = iota
	// OpenMPI is Open MPI.
	OpenMPI
	// MPICH is MPICH, and all with its ABI: Intel MPI, MVAPICH, Cray MPICH.
	MPICH
	// Either is that of a launcher that serves both, as srun does.
	Either
)

func (k Kind) String() string {
	return [...]string{None: "no MPI", OpenMPI: "Open MPI", MPICH: "MPICH", Either: "Open MPI or MPICH"}[k]
}

// Launch is the launcher's description of this process, for example rank 1 of 4.
type Launch struct {
	Launcher string // "mpirun of Open MPI"; "" without a launcher
	Kind     Kind
	Rank     int
	Size     int // ranks of the job; 1 where there is no launcher
	// LocalRank numbers the LocalSize ranks of this machine.
	LocalRank, LocalSize int
}

// alone is the launch of a process without a launcher.
var alone = Launch{Size: 1, LocalSize: 1}

// launcher is how a launcher's variables are called. Without local variables, ranks of a machine are
// unknown, which the error of Find says.
type launcher struct {
	name                             string
	kind                             Kind
	rank, size, localRank, localSize string
}

// launchers are looked for in this order: jobs of mpirun in an allocation of Slurm have Slurm's
// variables too, and mpirun of Open MPI sets those of PMIx.
var launchers = []launcher{
	{"mpirun of Open MPI", OpenMPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
		"OMPI_COMM_WORLD_LOCAL_SIZE"},
	{"mpirun of MPICH", MPICH, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
}

// Find says which rank of how many this process is, from its environment; without a launcher it is
// rank 0 of 1. A script that Slurm starts for several tasks is no rank until mpirun or srun makes
// some.
func Find(getenv func(string) string) (Launch, error) {
	for _, l := range launchers {
		// srun sets PMI_RANK too, and has names of its own for the rest.
		if getenv(l.rank) != "" && (getenv(l.localRank) != "" || getenv("SLURM_STEP_NUM_TASKS") == "") {
			return l.read(getenv)
		}
	}
	if n := getenv("SLURM_STEP_NUM_TASKS"); n != "" && n != "1" {
		return srun(getenv)
	}
	if getenv("PMIX_RANK") != "" && getenv("PMIX_NAMESPACE") != "" {
		return Launch{}, errors.New("PMIX_RANK is set, so a launcher by PMIx has started this process, but it does " +
			"not say how many there are: start it by mpirun of Open MPI or MPICH, or by srun")
	}
	if n := getenv("WORLD_SIZE"); n != "" && n != "1" && getenv("RANK") != "" {
		return Launch{}, fmt.Errorf("RANK=%s and WORLD_SIZE=%s are those of torchrun, which is not MPI: start the "+
			"ranks by mpirun -n %s", getenv("RANK"), n, n)
	}
	return alone, nil
}

// read reads the variables of a launcher.
func (l launcher) read(getenv func(string) string) (Launch, error) {
	out := Launch{Launcher: l.name, Kind: l.kind, LocalSize: 1}
	err := errors.Join(
		number(getenv, l.rank, 0, true, &out.Rank), number(getenv, l.size, 1, true, &out.Size),
		number(getenv, l.localRank, 0, false, &out.LocalRank),
		number(getenv, l.localSize, 1, false, &out.LocalSize),
	)
	return out.check(err)
}

// srun reads the variables of a step of Slurm with several tasks.
func srun(getenv func(string) string) (Launch, error) {
	out := Launch{Launcher: "srun", LocalSize: 1}
	node := 0
	err := errors.Join(
		number(getenv, "SLURM_PROCID", 0, true, &out.Rank),
		number(getenv, "SLURM_STEP_NUM_TASKS", 1, true, &out.Size),
		number(getenv, "SLURM_LOCALID", 0, true, &out.LocalRank),
		number(getenv, "SLURM_NODEID", 0, false, &node),
	)
	if err == nil {
		out.LocalSize, err = tasksOf(getenv("SLURM_STEP_TASKS_PER_NODE"), node)
	}
	switch {
	case getenv("PMIX_RANK") != "":
		out.Kind = Either
	case getenv("PMI_FD") != "" || getenv("PMI_RANK") != "":
		out.Kind = MPICH
	default:
		if err == nil {
			return Launch{}, fmt.Errorf("srun has started %d tasks without a way to find each other: start them by "+
				"srun --mpi=pmix or --mpi=pmi2 (srun --mpi=list says which there are), or by mpirun from the batch "+
				"script", out.Size)
		}
	}
	return out.check(err)
}

// tasksOf reads the number of tasks of a node from Slurm's list of numbers: "2(x3),1" is 2 on each of
// three nodes and 1 on a fourth.
func tasksOf(list string, node int) (int, error) {
	at := 0
	for part := range strings.SplitSeq(list, ",") {
		count, times, repeated := strings.Cut(strings.TrimSuffix(part, ")"), "(x")
		tasks, err := strconv.Atoi(count)
		n := 1
		if repeated && err == nil {
			n, err = strconv.Atoi(times)
		}
		if err != nil || tasks < 1 || n < 1 {
			break
		}
		if at += n; node < at {
			return tasks, nil
		}
	}
	return 0, fmt.Errorf("SLURM_STEP_TASKS_PER_NODE=%s does not say how many tasks node %d has: wanted numbers as "+
		"in 2(x3),1", list, node)
}

// number reads a variable that holds a number of at least least; without a variable that is not
// needed, to stays.
func number(getenv func(string) string, name string, least int, needed bool, to *int) error {
	text := getenv(name)
	if text == "" && !needed {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return fmt.Errorf("%s=%s: wanted a number of at least %d", name, text, least)
	}
	*to = n
	return nil
}

// check returns the launch if its numbers fit each other.
func (l Launch) check(err error) (Launch, error) {
	if err == nil && (l.Rank >= l.Size || l.LocalRank >= l.LocalSize || l.LocalSize > l.Size) {
		err = fmt.Errorf("rank %d of %d, and %d of %d on this machine, cannot be", l.Rank, l.Size, l.LocalRank,
			l.LocalSize)
	}
	if err != nil {
		return Launch{}, fmt.Errorf("the environment that %s has set: %w", l.Launcher, err)
	}
	return l, nil
}
