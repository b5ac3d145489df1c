package capture

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/store"
)

// featureResource returns the resource of NodeFeature objects, in which NFD publishes the features of Nodes. A cluster without NFD does not serve them.
func featureResource() factResource[classify.UsedFeatures, observe.Features] {
	return factResource[classify.UsedFeatures, observe.Features]{
		description: "nodefeatures of nfd.k8s-sigs.io/v1alpha1",
		optional:    true,
		usageOf:     classify.Rules.NodeFeatures,
		listWatch: func(c *Controller, usage classify.UsedFeatures) cache.ListerWatcher {
			return store.ListWatch(c.Dynamic, nodeFeatures{c.Dynamic.Resource(observe.NodeFeatureResource()), usage}, observe.NodeFeatureLabel, nil)
		},
		object: &unstructured.Unstructured{},
		strip: func(object any, usage classify.UsedFeatures) publication {
			if feature, ok := object.(*unstructured.Unstructured); ok {
				return observe.NodeFeatureOf(feature, usage)
			}
			return nil
		},
		unreadable: func(object any) publication {
			return observe.UnreadableNodeFeature(object.(*unstructured.Unstructured))
		},
		facts: func(objects []any) observe.Features {
			return observe.FeaturesOf(castAll[*observe.NodeFeature](objects))
		},
		report: (*Controller).reportFeatures,
	}
}

// reportFeatures reports once why rules about features decide nothing. That NFD is not installed is no error.
func (c *Controller) reportFeatures(err error) {
	log, event := c.features.shouldReport(err, c.leading.Load())
	switch {
	case apierrors.IsNotFound(err) && log:
		c.Logger.Info("rules look at features of node feature discovery, which is not installed; until it is, these rules decide nothing")
	case apierrors.IsNotFound(err):
	case log:
		c.Logger.Warn("rules look at features, and the node feature objects cannot be read; until they can, these rules decide nothing, and new rules only add labels", "error", err)
	}
	if event && !apierrors.IsNotFound(err) {
		c.policyWarningEvent(FactsUnknown,
			"Rules look at features, and the NodeFeature objects cannot be read. Until they can, these rules set and remove nothing, and new rules only add labels. The chart grants the right with rules.features=true. (%v)",
			err)
	}
}

// nodeFeaturePage is how many NodeFeature objects are read at a time. One may have 1.5 MB, and take some twenty times that in memory.
const nodeFeaturePage = 10

// nodeFeatures is a client that lists in pages, which takes little memory. It is for API servers without streaming lists (WatchList).
type nodeFeatures struct {
	dynamic.ResourceInterface
	usage classify.UsedFeatures
}

// List reads page by page, and keeps only what rules use. It removes the resourceVersion of the options, because the API server answers a list with
// resourceVersion 0 from its cache, in one piece.
func (n nodeFeatures) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	options.ResourceVersion, options.ResourceVersionMatch, options.Limit = "", "", nodeFeaturePage
	var all *unstructured.UnstructuredList
	for {
		page, err := n.ResourceInterface.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			// An object that panics stays as it is, and the informer reports it.
			_ = contain.Call(func() error { observe.PruneNodeFeature(&page.Items[i], n.usage); return nil })
		}
		if options.Continue = page.GetContinue(); all == nil {
			all = page
		} else {
			all.Items = append(all.Items, page.Items...)
		}
		if options.Continue == "" {
			all.SetContinue("")
			return all, nil
		}
	}
}
