package authz

import "github.com/proa-project/proa/api"

// Named returns the row of a resource that a question is about, or one with its
// name alone if the server does not have it: access to what is not there can be
// given, and asked about.
func Named(group, version, plural string) *api.Resource {
	if version != "" && version != all {
		if r := api.ByGVR(group, version, plural); r != nil {
			return r
		}
	}
	return &api.Resource{Group: group, Version: version, Plural: plural}
}
