package driver

import (
	"os"
	"unsafe"

	"memopt/internal/library"
)

// nvml is the management library, which counts each process's memory.
type nvml struct {
	c                    call
	getHandle, processes uintptr
	bus                  [256]byte
	device               uint64
	count                uint32
	list                 [256]nvmlProcess
}

// nvmlProcess is nvmlProcessInfo_v2_t.
type nvmlProcess struct {
	pid              uint32
	_                uint32
	used             uint64
	instance, slices uint32
}

// openNVML opens the library, or returns nil if it is missing. The device is identified by its
// place on the PCI bus, as libcuda writes it: the two libraries number devices in different orders,
// and CUDA_VISIBLE_DEVICES hides some from one of them.
func openNVML(bus *[256]byte) *nvml {
	name := "libnvidia-ml.so.1"
	if path := os.Getenv("MEMOPT_NVML"); path != "" {
		name = path
	}
	lib, err := openLibrary([]string{name})
	if err != nil {
		return nil
	}
	n := &nvml{}
	start, err := symbol(lib, "nvmlInit_v2")
	if err != nil {
		return nil
	}
	library.Note("libnvidia-ml", name, start)
	if n.getHandle, err = symbol(lib, "nvmlDeviceGetHandleByPciBusId_v2"); err != nil {
		return nil
	}
	if n.processes, err = symbol(lib, "nvmlDeviceGetComputeRunningProcesses_v3"); err != nil {
		return nil
	}
	if n.c.fn = start; int32(n.c.do()) != 0 {
		return nil
	}
	n.bus = *bus
	if n.c.fn = n.getHandle; int32(n.c.do(uintptr(unsafe.Pointer(&n.bus)), uintptr(unsafe.Pointer(&n.device)))) != 0 {
		return nil
	}
	return n
}

func (n *nvml) processMemory() (int64, bool) {
	n.count = uint32(len(n.list))
	n.c.fn = n.processes
	if int32(n.c.do(uintptr(n.device), uintptr(unsafe.Pointer(&n.count)), uintptr(unsafe.Pointer(&n.list[0])))) != 0 {
		return 0, false
	}
	for _, p := range n.list[:n.count] {
		if int(p.pid) == os.Getpid() && p.used != ^uint64(0) {
			return int64(p.used), true
		}
	}
	return 0, false
}
