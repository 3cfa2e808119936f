package scheduling

import (
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/scheduling/plugins/imagelocality"
	"github.com/proa-project/proa/scheduling/plugins/nodeaffinity"
	"github.com/proa-project/proa/scheduling/plugins/nodename"
	"github.com/proa-project/proa/scheduling/plugins/nodeports"
	"github.com/proa-project/proa/scheduling/plugins/noderesources"
	"github.com/proa-project/proa/scheduling/plugins/nodeunschedulable"
	"github.com/proa-project/proa/scheduling/plugins/schedulinggates"
	"github.com/proa-project/proa/scheduling/plugins/tainttoleration"
)

// DefaultName is the scheduler name of pods that state none.
const DefaultName = "default-scheduler"

// DefaultPlugins returns the plugins of the default profile in call order: the
// first filter that vetoes a node gives the reason.
func DefaultPlugins() []framework.Enabled {
	return []framework.Enabled{
		{Plugin: &schedulinggates.Plugin{}},
		{Plugin: &nodeunschedulable.Plugin{}},
		{Plugin: &nodename.Plugin{}},
		{Plugin: &tainttoleration.Plugin{}, Weight: 3},
		{Plugin: &nodeaffinity.Plugin{}, Weight: 2},
		{Plugin: &nodeports.Plugin{}},
		{Plugin: &noderesources.Fit{}, Weight: 1},
		{Plugin: &noderesources.Balanced{}, Weight: 1},
		{Plugin: &imagelocality.Plugin{}, Weight: 1},
	}
}

// DefaultProfile returns the profile of DefaultName.
func DefaultProfile() *framework.Profile {
	p, err := framework.NewProfile(DefaultName, DefaultPlugins()...)
	if err != nil {
		panic(err) // the list above is wrong
	}
	return p
}
