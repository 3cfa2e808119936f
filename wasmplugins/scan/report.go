package scan

import (
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission/policy"
)

// The results.
const (
	pass    = "pass"
	fail    = "fail"
	warn    = "warn"
	problem = "error"
)

// Bounds of a report, so that it always fits into an object.
const (
	maxResults = 500
	maxText    = 512 // of a message or a change
)

// A writer makes a report of answers.
type writer struct {
	plugin string
	r      pluginsv1.PolicyReport
}

// add takes up what a plugin says about a question.
func (w *writer) add(q question, v *policy.Verdict, err error) {
	s := &w.r.Summary
	res := pluginsv1.PolicyReportResult{Policy: w.plugin, Source: "proa", Timestamp: q.at}
	change := ""
	if v != nil && v.Object != nil {
		change = difference(q, v.Object)
	}
	switch {
	case err != nil:
		s.Error++
		res.Result, res.Message = problem, cut(err.Error())
	case v == nil:
		s.Skip++
		return
	case v.Denied != nil:
		s.Fail++
		res.Result, res.Message = fail, cut(v.Denied.Message)
	case change != "" || len(v.Warnings) > 0:
		s.Warn++
		res.Result, res.Message = warn, cut(strings.Join(v.Warnings, "; "))
		if change != "" && res.Message == "" {
			res.Message = "would be changed"
		}
	default:
		s.Pass++
		return
	}
	if len(w.r.Results) == maxResults {
		return // counted all the same
	}
	r := q.request
	res.Properties = map[string]string{"operation": string(r.Operation), "resource": r.Resource.Plural}
	if r.User != nil {
		res.Properties["user"] = r.User.Name
	}
	if change != "" && r.Resource.GR().String() != "secrets" { // what is in a Secret stays there
		res.Properties["change"] = cut(change)
	}
	gvk := r.Resource.GVK()
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	res.Resources = []pluginsv1.ResourceReference{{APIVersion: apiVersion, Kind: kind, Namespace: r.Namespace, Name: r.Name}}
	w.r.Results = append(w.r.Results, res)
}

// difference is what a plugin would change, as a merge patch; empty for
// nothing.
func difference(q question, after []byte) string {
	before, err := q.request.ObjectJSON()
	if err != nil || jsonpatch.Equal(before, after) {
		return ""
	}
	diff, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return "unreadable"
	}
	return string(diff)
}

func (w *writer) report() *pluginsv1.PolicyReport { return &w.r }

func cut(s string) string {
	if len(s) > maxText {
		return s[:maxText] + "..."
	}
	return s
}
