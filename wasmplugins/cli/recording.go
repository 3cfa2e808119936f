package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/match"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// recordings says how recorded requests are asked about.
type recordings struct {
	phase, settings, plugin string
}

func (o *recordings) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.phase, "phase", "", "recorded requests: mutate (the default), in which the plugin may refuse and change, or validate")
	c.Flags().StringVar(&o.settings, "settings", "", "recorded requests: a YAML or JSON file with the settings")
	c.Flags().StringVar(&o.plugin, "plugin", "", "recorded requests: the file of an AdmissionPlugin; its settings, limits and first phase are taken, and only requests that match it")
}

// readAll reads files of cases, and recordings, whose names end in .jsonl.
func (o *recordings) readAll(ctx context.Context, files []string) ([]testCase, error) {
	return o.readFiles(ctx, files, func(file string) bool { return filepath.Ext(file) == ".jsonl" })
}

// read reads recordings, whatever their names are.
func (o *recordings) read(ctx context.Context, files []string) ([]testCase, error) {
	return o.readFiles(ctx, files, func(string) bool { return true })
}

func (o *recordings) readFiles(ctx context.Context, files []string, recording func(file string) bool) ([]testCase, error) {
	b, err := o.binding()
	if err != nil {
		return nil, err
	}
	var all []testCase
	for _, file := range files {
		f, err := os.Open(file) // the user's file
		if err != nil {
			return nil, err
		}
		var cases []testCase
		if recording(file) {
			if cases, err = readRecording(f, b.phase); err == nil {
				cases, err = b.apply(ctx, cases)
			}
		} else {
			cases, err = readDocuments(f)
		}
		_ = f.Close() // was only read
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, cases...)
	}
	return all, nil
}

// A binding is what a plugin is bound with, as far as that is known here.
type binding struct {
	phase    string
	settings json.RawMessage
	limits   engine.Limits
	matcher  *match.Matcher // nil for all requests
}

func (o *recordings) binding() (*binding, error) {
	b := &binding{phase: abi.PhaseMutate}
	if o.plugin != "" {
		if err := b.read(o.plugin); err != nil {
			return nil, fmt.Errorf("%s: %w", o.plugin, err)
		}
	}
	if o.phase != "" {
		b.phase = o.phase
	}
	if b.phase != abi.PhaseMutate && b.phase != abi.PhaseValidate {
		return nil, fmt.Errorf("phase %q: it must be mutate or validate", b.phase)
	}
	if o.settings == "" {
		return b, nil
	}
	text, err := os.ReadFile(o.settings)
	if err != nil {
		return nil, err
	}
	if b.settings, err = yaml.YAMLToJSON(text); err != nil {
		return nil, fmt.Errorf("%s: %w", o.settings, err)
	}
	return b, nil
}

// read takes what an AdmissionPlugin says.
func (b *binding) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	p := &pluginsv1.AdmissionPlugin{}
	if err = yaml.UnmarshalStrict(text, p); err != nil {
		return err
	}
	if p.Kind != "AdmissionPlugin" {
		return fmt.Errorf("it is a %q, not an AdmissionPlugin", p.Kind)
	}
	if len(p.Spec.Phases) > 0 {
		b.phase = strings.ToLower(string(p.Spec.Phases[0]))
	}
	if p.Spec.Settings != nil {
		b.settings = p.Spec.Settings.Raw
	}
	if l := p.Spec.Limits; l != nil {
		b.limits = engine.Limits{Timeout: time.Duration(l.TimeoutMillis) * time.Millisecond, Memory: int64(l.MemoryMiB) << 20, Fuel: l.Fuel}
	}
	b.matcher, err = match.New(match.Spec{Rules: match.Rules(p.Spec.Rules), Namespaces: p.Spec.NamespaceSelector, Objects: p.Spec.ObjectSelector})
	return err
}

// apply drops the requests that do not match, and binds the others.
func (b *binding) apply(ctx context.Context, cases []testCase) ([]testCase, error) {
	kept := cases[:0]
	for _, c := range cases {
		c.Settings, c.limits = b.settings, b.limits
		if b.matcher != nil {
			r, err := c.request()
			if err != nil {
				return nil, err
			}
			w, err := writeOf(r)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			ok, err := b.matcher.Matches(ctx, w, namespaceLabels)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
		}
		kept = append(kept, c)
	}
	return kept, nil
}

// namespaceLabels are the only labels of a namespace that are known offline.
func namespaceLabels(_ context.Context, name string) (labels.Set, error) {
	return labels.Set{corev1.LabelMetadataName: name}, nil
}

// writeOf makes a recorded request what it was in the server.
func writeOf(r *abi.AdmissionRequest) (*admission.Request, error) {
	row := api.ByGVR(r.ResourceGroup, r.ResourceVersion, r.Resource)
	if row == nil {
		row = &api.Resource{Group: r.ResourceGroup, Version: r.ResourceVersion, Plural: r.Resource, Kind: r.Kind, Namespaced: r.Namespace != ""}
	}
	w := &admission.Request{
		UID: r.UID, Operation: admission.Operation(r.Operation), Resource: row, Subresource: r.SubResource, Namespace: r.Namespace, Name: r.Name,
		User: &request.User{Name: r.Username, UID: r.UserUID, Groups: r.Groups, Extra: r.Extra}, DryRun: r.DryRun,
	}
	var err error
	if w.Object, err = decode(row, r.Object); err != nil {
		return nil, err
	}
	w.OldObject, err = decode(row, r.OldObject)
	return w, err
}

// decode decodes an object of a row; nil stays nil.
func decode(row *api.Resource, text []byte) (runtime.Object, error) {
	if len(text) == 0 {
		return nil, nil
	}
	if row.New == nil {
		u := &unstructured.Unstructured{}
		return u, json.Unmarshal(text, &u.Object)
	}
	obj := row.New()
	if err := json.Unmarshal(text, obj); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(row.GVK())
	return obj, nil
}
