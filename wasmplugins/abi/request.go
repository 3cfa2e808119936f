package abi

import (
	"encoding/json"
	"fmt"
)

// ParseAdmissionRequest reads the JSON of an AdmissionRequest of
// admission.k8s.io/v1, as Append writes it and as recordings and test cases
// have it. Fields that it does not know are dropped.
func ParseAdmissionRequest(b []byte) (*AdmissionRequest, error) {
	var in struct {
		UID  string `json:"uid"`
		Kind struct {
			Group   string `json:"group"`
			Version string `json:"version"`
			Kind    string `json:"kind"`
		} `json:"kind"`
		Resource struct {
			Group    string `json:"group"`
			Version  string `json:"version"`
			Resource string `json:"resource"`
		} `json:"resource"`
		SubResource string `json:"subResource"`
		Name        string `json:"name"`
		Namespace   string `json:"namespace"`
		Operation   string `json:"operation"`
		UserInfo    struct {
			Username string              `json:"username"`
			UID      string              `json:"uid"`
			Groups   []string            `json:"groups"`
			Extra    map[string][]string `json:"extra"`
		} `json:"userInfo"`
		DryRun    bool            `json:"dryRun"`
		Options   json.RawMessage `json:"options"`
		Object    json.RawMessage `json:"object"`
		OldObject json.RawMessage `json:"oldObject"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, fmt.Errorf("read an admission request: %w", err)
	}
	return &AdmissionRequest{
		UID: in.UID, Group: in.Kind.Group, Version: in.Kind.Version, Kind: in.Kind.Kind,
		ResourceGroup: in.Resource.Group, ResourceVersion: in.Resource.Version, Resource: in.Resource.Resource,
		SubResource: in.SubResource, Name: in.Name, Namespace: in.Namespace, Operation: in.Operation,
		Username: in.UserInfo.Username, UserUID: in.UserInfo.UID, Groups: in.UserInfo.Groups, Extra: in.UserInfo.Extra,
		DryRun: in.DryRun, Options: present(in.Options), Object: present(in.Object), OldObject: present(in.OldObject),
	}, nil
}

// present drops a null.
func present(b []byte) []byte {
	if string(b) == "null" {
		return nil
	}
	return b
}
