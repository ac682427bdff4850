package ortengine

import "context"

// Loads opens a model's file once, with the engine's options, and runs nothing. It returns the version
// of the runtime. The error is an *Error: what the runtime says of the file, or why there is none; or
// that of a context that was done before.
func (e *Engine) Loads(ctx context.Context, file string) (version string, err error) {
	p, err := e.start(ctx, "")
	if err != nil {
		return "", err
	}
	defer p.Close()
	_, err = p.Open(file, e.Options, nil, nil)
	return p.Info().Version, failedOn(file, nil, err)
}
