package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"memopt/executor/cpu/blas"
	"memopt/executor/cpu/dnnl"
	"memopt/executor/cuda/driver"
	"memopt/executor/ort"
	"memopt/internal/library"
)

// FindLibraries opens the libraries that memopt uses, as it does when it executes. ONNX Runtime runs
// in the given process; nil leaves it out.
func FindLibraries(ctx context.Context, runtime *ort.Program) []Library {
	list := []Library{openBLASLibrary(), oneDNNLibrary()}
	if runtime != nil {
		list = append(list, ortLibrary(ctx, *runtime))
	}
	return append(list, cudaLibraries()...)
}

func openBLASLibrary() Library {
	l := Library{Name: openBLAS}
	l.Version, l.Kernels = blas.OpenBLAS()
	return l.located(openBLAS)
}

func oneDNNLibrary() Library {
	l := Library{Name: oneDNN}
	if dnnl.Available() {
		l.Version = dnnl.Name()
	}
	return l.located(oneDNN)
}

// located completes a library by the notes of package library under a name.
func (l Library) located(name string) Library {
	for _, o := range library.List() {
		if o.Name == name {
			l.Path, l.Doubt = o.Path, o.Doubt
		}
	}
	for _, r := range library.Refusals() {
		if r.Name == name {
			l.Refused = append(l.Refused, r.Path+": "+strings.TrimPrefix(r.Why, r.Path+": "))
		}
	}
	if l.Version == "" && l.Missing == "" {
		l.Missing = "it was not found"
	}
	return l
}

func ortLibrary(ctx context.Context, runtime ort.Program) Library {
	l := Library{Name: onnxRuntime}
	p, err := ort.Start(ctx, runtime)
	if err != nil {
		l.Missing = reason(err)
		return l
	}
	defer p.Close()
	info := p.Info()
	l.Version, l.Path, l.Doubt = onnxRuntime+" "+info.Version, info.Path, info.Doubt
	return l
}

// reason is an error without the advice behind it, which findings have of their own.
func reason(err error) string {
	text, _, _ := strings.Cut(err.Error(), "; ")
	return text
}

// cudaLibraries opens the first GPU and the libraries that compute on it.
func cudaLibraries() []Library {
	cuda, products, convolutions := Library{Name: cudaDriver}, Library{Name: cuBLAS},
		Library{Name: cuDNN}
	d, err := driver.Open(0)
	if err != nil {
		cuda.Missing = reason(err)
		products.Missing, convolutions.Missing = "there is no GPU to use it on",
			"there is no GPU to use it on"
		return []Library{cuda, products, convolutions}
	}
	defer d.Close()
	info := d.Info()
	cuda.Version = fmt.Sprintf("for CUDA %d.%d: %s", info.DriverVersion/1000,
		info.DriverVersion%1000/10, info.Name)
	if err := d.Gemm(0, &driver.Gemm{}); absent(err) {
		products.Missing = reason(err)
	} else {
		products.Version = cuBLAS
	}
	if _, err := d.ConvAlgos(0, smallConv(), driver.SearchDefault); absent(err) {
		convolutions.Missing = reason(err)
	} else {
		convolutions.Version = cuDNN
	}
	return []Library{cuda.located("libcuda"), products.located("libcublas"),
		convolutions.located("libcudnn")}
}

// absent reports whether an error means that a library is missing.
func absent(err error) bool {
	var missing *driver.Missing
	return errors.As(err, &missing)
}

// smallConv is a convolution of one element.
func smallConv() *driver.Conv {
	one := [3]int{1, 1, 1}
	return &driver.Conv{ConvCase: driver.ConvCase{Kind: driver.ConvForward, Elem: driver.F32, N: 1,
		C: 1, M: 1,
		Groups: 1, Axes: 2, In: one, Out: one, Kernel: one, Stride: one, Dilation: one}}
}
