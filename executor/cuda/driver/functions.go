package driver

// function numbers the driver's functions that are used.
type function int

const (
	cuInit function = iota
	cuDriverGetVersion
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetAttribute
	cuDeviceTotalMem
	cuDeviceGetPCIBusId
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuDevicePrimaryCtxReset
	cuCtxSetCurrent
	cuMemAlloc
	cuMemFree
	cuMemGetInfo
	cuMemHostAlloc
	cuMemFreeHost
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemsetD8Async
	cuModuleLoadDataEx
	cuModuleGetFunction
	cuModuleUnload
	cuLaunchKernel
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamWaitEvent
	cuStreamBeginCapture
	cuStreamEndCapture
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventElapsedTime
	cuGraphInstantiate
	cuGraphLaunch
	cuGraphExecDestroy
	cuGraphDestroy
	cuGetErrorName
	cuGetErrorString
	numFunctions
)

// functionNames are their names in the library: those that cuda.h of CUDA 11.4 and later gives
// them. _v2 are those with 64-bit sizes, and those whose meaning has changed.
var functionNames = [numFunctions]string{
	cuInit: "cuInit", cuDriverGetVersion: "cuDriverGetVersion", cuDeviceGetCount: "cuDeviceGetCount",
	cuDeviceGet:     "cuDeviceGet",
	cuDeviceGetName: "cuDeviceGetName", cuDeviceGetAttribute: "cuDeviceGetAttribute",
	cuDeviceTotalMem:         "cuDeviceTotalMem_v2",
	cuDeviceGetPCIBusId:      "cuDeviceGetPCIBusId",
	cuDevicePrimaryCtxRetain: "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
	cuDevicePrimaryCtxReset: "cuDevicePrimaryCtxReset_v2",
	cuCtxSetCurrent:         "cuCtxSetCurrent", cuMemAlloc: "cuMemAlloc_v2", cuMemFree: "cuMemFree_v2",
	cuMemGetInfo:   "cuMemGetInfo_v2",
	cuMemHostAlloc: "cuMemHostAlloc", cuMemFreeHost: "cuMemFreeHost",
	cuMemcpyHtoDAsync: "cuMemcpyHtoDAsync_v2", cuMemcpyDtoHAsync: "cuMemcpyDtoHAsync_v2",
	cuMemcpyDtoDAsync: "cuMemcpyDtoDAsync_v2", cuMemsetD8Async: "cuMemsetD8Async",
	cuModuleLoadDataEx: "cuModuleLoadDataEx", cuModuleGetFunction: "cuModuleGetFunction",
	cuModuleUnload: "cuModuleUnload", cuLaunchKernel: "cuLaunchKernel",
	cuStreamCreate: "cuStreamCreate", cuStreamDestroy: "cuStreamDestroy_v2", cuStreamSynchronize: "cuStreamSynchronize",
	cuStreamWaitEvent:    "cuStreamWaitEvent",
	cuStreamBeginCapture: "cuStreamBeginCapture_v2", cuStreamEndCapture: "cuStreamEndCapture",
	cuEventCreate: "cuEventCreate", cuEventDestroy: "cuEventDestroy_v2", cuEventRecord: "cuEventRecord",
	cuEventElapsedTime: "cuEventElapsedTime",
	cuGraphInstantiate: "cuGraphInstantiateWithFlags", cuGraphLaunch: "cuGraphLaunch",
	cuGraphExecDestroy: "cuGraphExecDestroy", cuGraphDestroy: "cuGraphDestroy",
	cuGetErrorName: "cuGetErrorName", cuGetErrorString: "cuGetErrorString",
}
