package main

import (
	"github.com/spf13/cobra"
)

// prepare fills flags that are not given from MEMOPT_<FLAG> and checks the global ones.
func (a *app) prepare(cmd *cobra.Command, args []string) error {
	return a.prepareArguments(cmd, func() ([]string, error) { return args, nil })
}

// prepareArguments is prepare for a verb that has arguments from elsewhere: find is asked for them when the verb's
// flags are known.
func (a *app) prepareArguments(cmd *cobra.Command, find func() ([]string, error)) error {
	a.verb = cmd
	if err := a.takeVariables(cmd); err != nil {
		return err
	}
	args, err := find()
	if err != nil {
		return err
	}
	if err := a.checkColor(); err != nil {
		return err
	}
	a.fitScreen()
	if err := a.announceFiles(cmd, args); err != nil {
		return err
	}
	if !cmd.Hidden {
		a.warnVariables(cmd.Root())
		a.limited(cmd.Flags())
		a.startStatus(cmd.Name())
	}
	return nil
}
