// Package device estimates times of nodes by a device's rates: the roofline model over figures of its data sheet.
// Plans rank costs by them where no measured times are given.
package device

import (
	"memopt/graph"
	"memopt/graph/op"
)

// Profile is the peak performance of a device, from its data sheet. Times estimated by it rank plans, but are
// no predictions, unlike measured times.
type Profile struct {
	Name string
	// Loops are the rates of the vector units, which run every operator that is no product.
	Loops Rates
	// Products are the rates of operators bound by arithmetic (op.Expensive), such as products of
	// matrices and convolutions. Tensor cores make them much higher than Loops.
	Products Rates
	// BytesPerSec is the memory bandwidth.
	BytesPerSec float64
	// LaunchSeconds is the least time of a node however little it computes: starting a kernel. Views and
	// constants start no kernel.
	LaunchSeconds float64
	// Memory is the bytes of the device's memory; 0 if unknown, as for a CPU, whose memory is the machine's.
	Memory int64
	// Reserve is the bytes of Memory that no step can have: those of the driver, the context, libraries and
	// kernels.
	Reserve int64
	// Link is the bytes per second between the device's memory and the host's, each way; 0: there is no other
	// memory, as for a CPU, or it is unknown.
	Link   float64
	Source string // the documents that the figures are from
}

// Rates are floating-point operations per second by element type. Types of 8 bits and fewer count
// as Float16, integers and booleans as Float32.
type Rates struct {
	Float64, Float32, Float16, BFloat16 float64
}

// Of returns the rate for an element type.
func (r Rates) Of(d graph.DType) float64 {
	switch d {
	case graph.Float64, graph.Complex64, graph.Complex128:
		return r.Float64
	case graph.BFloat16:
		return r.BFloat16
	case graph.Float16, graph.Float8E4M3FN, graph.Float8E4M3FNUZ, graph.Float8E5M2, graph.Float8E5M2FNUZ,
		graph.Float8E8M0, graph.Float4E2M1:
		return r.Float16
	}
	return r.Float32
}

// Default is used where no device is named. It is configs/devices/a100.json.
var Default = Profile{
	Name:          "a100",
	Loops:         Rates{Float64: 9.7e12, Float32: 19.5e12, Float16: 78e12, BFloat16: 39e12},
	Products:      Rates{Float64: 19.5e12, Float32: 156e12, Float16: 312e12, BFloat16: 312e12},
	BytesPerSec:   2.039e12,
	LaunchSeconds: 3.8e-6,
	Memory:        80 << 30,
	Reserve:       1382 << 20,
	Link:          2.5e10,
	Source:        a100Source,
}

const a100Source = "NVIDIA A100 80GB SXM data sheet (2021): FP64 9.7, FP64 Tensor Core 19.5, FP32 19.5, TF32 156, " +
	"BFLOAT16 and FP16 Tensor Core 312 TFLOPS without sparsity, 2,039 GB/s; " +
	"NVIDIA A100 Tensor Core GPU Architecture (2020), table 1: non-tensor FP16 78, BF16 39 TFLOPS; " +
	"products of float32 run as TF32, as ONNX Runtime lets them by default (CUDA execution provider, use_tf32); " +
	"launch: 3.8 us per short kernel started one after the other, A. Gray, Getting Started with CUDA Graphs, NVIDIA " +
	"technical blog (2019), on a V100; " +
	"memory: 81,920 MiB (nvidia-smi, modal-labs/modal-client#2797); reserve: 870 MiB that the driver keeps " +
	"(programs see 79.15 GiB, vllm-project/vllm#4408) and 512 MiB for the CUDA context, kernels and cuBLAS's " +
	"workspace (as scripts/gpu-verify allows; a context alone took 426 MiB on an RTX 6000 Ada, " +
	"unslothai/unsloth-zoo#1053, and about 400 MB with PyTorch, pytorch/pytorch#109888); " +
	"link: PCI Express 4.0 with 16 lanes, each way as measured (A100: 25 GB/s, " +
	"ZaidQureshi/bam#54)"

// Seconds estimates one execution of a node by the roofline model (Williams, Waterman and Patterson, CACM 52(4),
// 2009): the larger of arithmetic time and memory time, and no less than a launch. A node that computes and
// moves 0 bytes takes no time.
func (p *Profile) Seconds(info *op.Info, d graph.DType, flops, traffic float64) float64 {
	if flops == 0 && traffic == 0 || info.Has(op.ConstantRole) {
		return 0
	}
	return p.Kernel(info.Class == op.Expensive, d, flops, traffic)
}

// Kernel estimates one kernel by the roofline model: product means that it is bound by arithmetic
// (op.Expensive), traffic is the bytes that it reads and writes.
func (p *Profile) Kernel(product bool, d graph.DType, flops, traffic float64) float64 {
	rates := &p.Loops
	if product {
		rates = &p.Products
	}
	return max(flops/rates.Of(d), traffic/p.BytesPerSec, p.LaunchSeconds)
}
