// Command everything is a plugin that uses everything of its kit.
package main

import (
	"strconv"

	"github.com/proa-project/proa/wasmplugins/guest"
)

func main() {}

func init() { guest.OnAdmit(admit) }

func admit(r *guest.Request) guest.Answer {
	guest.Info("asked to " + r.Object.Get("do").Text())
	switch {
	case r.Object.Get("do").Is("read"):
		return read(r)
	case r.Object.Get("do").Is("patch"):
		p := &guest.Patch{}
		p.Add(guest.Pointer("metadata", "labels", "a/b~c"), r.Settings.Get("text")).Test("/list/0", 1).Add("/list/1", 7).
			Add("/list/-", r.Object.Get("metadata", "labels")).Remove("/gone").Replace("/same", guest.Raw(`{"json":true}`))
		return guest.Change(p).Warn("careful \"é\"").Warn("second").Annotate("k", "v\n")
	case r.Object.Get("do").Is("object"):
		return guest.Answer{Allowed: true, Object: []byte(`{"whole":true}`)}
	case r.Object.Get("do").Is("echo"):
		return guest.Answer{Allowed: true, Object: guest.NewObject().Set("value", echo(r.Object.Get("value"))).JSON()}
	case r.Object.Get("do").Is("host"):
		return host(r)
	}
	return guest.Allow()
}

func read(r *guest.Request) guest.Answer {
	word := func(b bool, yes, no string) string {
		if b {
			return yes
		}
		return no
	}
	list := r.Object.Get("kéy\"")
	items := make([]guest.Value, 6)
	for i, v := range list.Items {
		items[i] = v
	}
	f, ok := items[1].Float()
	one := "-"
	if n, ok := items[0].Int(); ok {
		one = strconv.FormatInt(n, 10)
	}
	text := r.Operation() + " " + r.Kind() + " " + r.Resource() + " " + r.SubResource() + " " + r.Namespace() + " " + r.Name() + " " + r.Username() +
		" " + word(r.DryRun(), "dry", "wet") + " " + string(r.Phase) + " " + word(r.OldObject.Missing(), "none", r.OldObject.Get("text").Text()) +
		" " + r.Object.Get("text").Text() + " " + strconv.Itoa(list.Len()) + " " + strconv.Itoa(r.Object.Get("empty").Len()) + " " + one +
		" " + word(items[2].Missing(), "missing", word(items[2].IsNull(), "null", "something")) + " " + strconv.FormatBool(items[3].Bool()) +
		" " + items[5].Text() + " " + word(r.Object.Get("none", "at", "all").IsNull(), "absent", "there")
	a := guest.Deny(text)
	if ok && f == -25 {
		a.Code, a.Reason = 422, "Invalid"
	}
	return a
}

func host(r *guest.Request) guest.Answer {
	pods := guest.Resource{Version: "v1", Resource: "pods"}
	got, _ := guest.KubeGet(guest.Resource{Group: "apps", Version: "v1", Resource: "deployments"}, r.Namespace(), "web")
	items, _ := guest.KubeList(pods, "", "a=b")
	can, _ := guest.CanI("delete", pods, r.Namespace(), "")
	now, _ := guest.Now()
	random, _ := guest.Random(2)
	data, _ := guest.Config(r.Namespace(), "c")
	web, _ := guest.HTTP("GET", "https://a.test", nil, nil)
	_, err := guest.Call("own", []byte(`{"x":1}`))
	yes := "no"
	if can {
		yes = "yes"
	}
	return guest.Deny(got.Get("metadata", "name").Text() + " " + strconv.Itoa(items.Len()) + " " + yes + " " + strconv.FormatInt(now, 10) +
		" " + strconv.Itoa(len(random)) + " " + data.Get("k").Text() + " " + strconv.Itoa(web.Status) + " " + err.Error())
}

// echo puts a value together again, piece by piece.
func echo(v guest.Value) any {
	switch {
	case v.IsObject():
		o := guest.NewObject()
		v.Keys(func(key string, value guest.Value) bool { o.Set(key, echo(value)); return true })
		return o
	case v.IsArray():
		list := []any{}
		v.Items(func(_ int, item guest.Value) bool { list = append(list, echo(item)); return true })
		return list
	case v.IsString():
		return v.Text()
	}
	if n, ok := v.Int(); ok {
		return n
	}
	return guest.Raw(v.Raw())
}
