package client

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listQuery is the options as query parameters.
func listQuery(o *metav1.ListOptions) url.Values {
	q := make(url.Values, 4)
	set := func(k, v string) {
		if v != "" {
			q[k] = []string{v}
		}
	}
	set("labelSelector", o.LabelSelector)
	set("fieldSelector", o.FieldSelector)
	set("resourceVersion", o.ResourceVersion)
	set("resourceVersionMatch", string(o.ResourceVersionMatch))
	set("continue", o.Continue)
	if o.Limit > 0 {
		set("limit", strconv.FormatInt(o.Limit, 10))
	}
	if o.TimeoutSeconds != nil {
		set("timeoutSeconds", strconv.FormatInt(*o.TimeoutSeconds, 10))
	}
	if o.AllowWatchBookmarks {
		set("allowWatchBookmarks", "true")
	}
	if o.SendInitialEvents != nil {
		set("sendInitialEvents", strconv.FormatBool(*o.SendInitialEvents))
	}
	return q
}

// deleteBody is the options as the body of a DELETE, nil if there are none.
func deleteBody(o *metav1.DeleteOptions) ([]byte, error) {
	if o.GracePeriodSeconds == nil && o.Preconditions == nil && o.PropagationPolicy == nil && len(o.DryRun) == 0 {
		return nil, nil
	}
	d := *o
	d.TypeMeta = metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}
	b, err := json.Marshal(&d)
	if err != nil {
		return nil, fmt.Errorf("encode delete options: %w", err)
	}
	return b, nil
}
