package library_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/library"
)

// TestChurn: while modules are changed, deleted and made again, whoever has got
// code can run it, and it is the code that he has asked for.
func TestChurn(t *testing.T) {
	f := newFixture(t)
	names := []string{"a", "b"}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var ran atomic.Int64
	for worker := range 4 {
		wg.Go(func() {
			for n := worker; ctx.Err() == nil; n++ {
				digest := ""
				if n%3 > 0 {
					digest = guestDigests(byte(n % 4))[0]
				}
				if err := f.use(ctx, names[n%2], digest, fmt.Sprint(worker)); err != nil {
					t.Error(err)
					return
				}
				ran.Add(1)
			}
		})
	}
	for n := range 60 {
		name := names[n%2]
		if n%10 == 9 {
			if err := f.modules.Delete(t.Context(), "", name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			continue
		}
		f.module(name, code(guest(byte(n/2%4))))
		if n%3 == 0 {
			f.wait(name, "Compiled")
		}
	}
	cancel()
	wg.Wait()
	t.Logf("%d uses", ran.Load())
	for _, name := range names {
		f.module(name, code(guest(5)))
		f.wait(name, "Compiled")
		f.get(name, "")
	}
}

// use starts a program with a module's code, if that can be had.
func (f *fixture) use(ctx context.Context, name, digest, worker string) error {
	ref, err := f.lib.Get(ctx, name, digest)
	var p *library.Problem
	if errors.As(err, &p) || ctx.Err() != nil {
		return nil // modules come and go
	}
	if err != nil {
		return err
	}
	defer ref.Release()
	if digest != "" && ref.Digest != digest {
		return fmt.Errorf("got %s instead of %s", ref.Digest, digest)
	}
	program, err := f.engine.Start(ctx, ref.Code, engine.ProgramConfig{Name: worker, Exports: []string{"proa_abi"}})
	if err != nil {
		if ctx.Err() != nil {
			return nil // the end of the test
		}
		return err
	}
	defer program.Close()
	_, err = program.Do(ctx, engine.Call{}, func(i *engine.Instance) error {
		v, err := i.Call(0)
		if err == nil && v != 0x10000 {
			err = fmt.Errorf("got %x", v)
		}
		return err
	})
	if ctx.Err() != nil {
		return nil // the end of the test
	}
	return err
}
