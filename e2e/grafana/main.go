// Reads dashboards by the types of Grafana's foundation SDK, strictly: an unknown field, a wrong type or a missing one is an
// error. Options of panels and queries of data sources are read by the types of their plugins.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func check(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var board dashboard.Dashboard
	for _, err := range []error{board.UnmarshalJSONStrict(text), board.Validate()} {
		// The SDK returns an empty list of faults for a board without any.
		var faults cog.BuildErrors
		if errors.As(err, &faults) && len(faults) == 0 {
			continue
		}
		if err != nil {
			return err
		}
	}
	fmt.Println(path, "has", len(board.Panels), "panels")
	return nil
}

func main() {
	plugins.RegisterDefaultPlugins()
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(1)
		}
	}
}
