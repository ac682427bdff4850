package cli

import (
	"github.com/spf13/cobra"
)

// Prepare fills flags that are not given from MEMOPT_<FLAG> and checks the global ones.
func (a *App) Prepare(cmd *cobra.Command, args []string) error {
	return a.PrepareArguments(cmd, func() ([]string, error) { return args, nil })
}

// PrepareArguments is prepare for a verb that has arguments from elsewhere: find is asked for them when the verb's
// flags are known.
func (a *App) PrepareArguments(cmd *cobra.Command, find func() ([]string, error)) error {
	a.Verb = cmd
	if err := a.TakeVariables(cmd); err != nil {
		return err
	}
	args, err := find()
	if err != nil {
		return err
	}
	if err := a.CheckColor(); err != nil {
		return err
	}
	a.fitScreen()
	if err := a.readHistograms(); err != nil {
		return err
	}
	if err := a.pickPlan(cmd); err != nil {
		return err
	}
	if err := a.announceFiles(cmd, args); err != nil {
		return err
	}
	if !cmd.Hidden {
		a.WarnVariables(cmd.Root())
		a.Limited(cmd.Flags())
		a.startStatus(cmd.Name())
	}
	return nil
}
